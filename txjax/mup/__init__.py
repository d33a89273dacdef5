"""Checks of a parametrization: do activations keep their size, does the best learning rate transfer?"""
