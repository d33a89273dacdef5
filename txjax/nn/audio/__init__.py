"""Layers of models of audio."""
