"""Evaluators of answers about images."""
