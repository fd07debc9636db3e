"""Side-by-side measurements of speed and memory: ``make bench``, or ``python -m vnt.bench``."""
