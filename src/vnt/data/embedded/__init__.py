"""Sets that are generated from a seed, so that everything runs with no download."""
