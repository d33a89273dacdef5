"""Evaluations of classifiers."""
