"""How good a model is, under which rotations, and how sure we are."""
