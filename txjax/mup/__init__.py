"""Checks of a parametrization: the coordinate check of activations, and learning rate transfer."""
