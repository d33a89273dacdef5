"""Sweeps: many runs of one config file, one for each point, a dict from dotted paths to values."""

from txjax.sweep.names import Point
from txjax.sweep.points import LogUniform, Uniform, Whole, chain, grid, sample, zip

__all__ = ["LogUniform", "Uniform", "Whole", "chain", "grid", "sample", "zip"]
