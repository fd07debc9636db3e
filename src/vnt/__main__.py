"""``python -m vnt``, the same as ``vnt``."""

from vnt.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
