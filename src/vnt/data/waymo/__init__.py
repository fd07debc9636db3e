"""Waymo Open Motion, read without TensorFlow."""
