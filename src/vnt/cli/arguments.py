"""What several commands call by the same names."""

import tyro

OUT = tyro.conf.arg(aliases=["-o", "--output"])
"""``-o``, ``--out`` or ``--output``: the folder or file that a command writes."""
