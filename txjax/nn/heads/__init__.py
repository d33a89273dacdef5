"""Heads: from what an encoder returns to the output of a model."""
