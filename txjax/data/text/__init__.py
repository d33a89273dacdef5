"""Data sets of texts."""
