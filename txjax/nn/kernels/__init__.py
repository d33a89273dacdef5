"""Masks, and the kernels that compute attention under them."""
