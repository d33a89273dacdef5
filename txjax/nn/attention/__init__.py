"""Attention: masks, caches, kernels, windows, and attention over several devices."""
