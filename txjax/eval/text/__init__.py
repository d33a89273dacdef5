"""Evaluations of texts."""
