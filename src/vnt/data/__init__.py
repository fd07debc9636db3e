"""Data: users' own files, the sets of the paper, two sets that ship inside the package, and batches of them."""
