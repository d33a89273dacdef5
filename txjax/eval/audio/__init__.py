"""Evaluators of audio."""
