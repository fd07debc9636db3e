"""``vnt view``: a page in the browser where you turn things by hand, or one file to put on a website."""

import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional


@dataclass(frozen=True)
class Options:
    """Turn a cloud or a track with the mouse, and watch an equivariant and an ordinary model answer."""

    files: Positional[tuple[Path, ...]] = ()
    """Clouds in any supported format, or recordings of tracks; built-in ones are there too."""
    model: Path | None = None
    """Folder of a run or of a model, or one that comes with vnt. By default bundled ones, small and fast."""
    plain: Path | None = None
    """The model to show beside it, which learned the same."""
    export: Path | None = None
    """Write a page that needs no server to this file, and end."""
    host: str = "127.0.0.1"
    """Who may come: 127.0.0.1 is this machine alone, 0.0.0.0 is everybody on the network."""
    port: int = 8080
    """Where; the next free one if it is taken."""
    browser: Annotated[bool, tyro.conf.FlagConversionOff] = True
    """Open the page in your browser."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt view ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt view")
    if options.plain is not None and options.model is None:
        raise ValueError("--plain needs --model: it is shown beside it")
    from vnt.files import atomic_write
    from vnt.view.content import make_content

    content, given = make_content(options.files, options.model, options.plain)
    if options.export is not None:
        from vnt.view.gallery import gallery_page

        with atomic_write(options.export) as path:
            chosen = tuple(name for name in (*content.clouds, *content.tracks) if name in given)
            text = gallery_page(content, chosen=chosen, say=_say)
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{options.export}\n")
        return
    try:
        from vnt.view.page import Page
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}: the page needs viser: pip install 'vnt[view]'") from error
    page = Page(content, host=options.host, port=options.port, start=given[0] if given else None)
    sys.stdout.write(f"{page.address}    (Ctrl-C ends it)\n")
    sys.stdout.flush()
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        sys.stderr.write("vnt: everybody who can reach this machine can see this page and send it files\n")
    if options.browser:
        webbrowser.open(page.address)
    try:
        while True:
            time.sleep(3600)
    finally:
        page.stop()


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
