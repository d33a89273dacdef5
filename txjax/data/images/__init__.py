"""Data sets of images, and what changes images."""
