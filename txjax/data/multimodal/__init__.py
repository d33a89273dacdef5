"""Texts with images."""
