"""Optimizers, learning rate schedules and parameter groups: values of a config."""

from txjax.optim.groups import Group, assign, default_groups
from txjax.optim.optimizers import SGD, Adafactor, AdamW, Lion, Muon, Optimizer
from txjax.optim.schedules import Constant, Cosine, InverseSquareRoot, Linear, Schedule, WarmupStableDecay

__all__ = [
    "SGD",
    "Adafactor",
    "AdamW",
    "Constant",
    "Cosine",
    "Group",
    "InverseSquareRoot",
    "Linear",
    "Lion",
    "Muon",
    "Optimizer",
    "Schedule",
    "WarmupStableDecay",
    "assign",
    "default_groups",
]
