"""Evaluations of frozen features."""
