"""Optimizers, learning rate schedules, parameter groups and averages of weights."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.optim.average import EMA
    from txjax.optim.groups import Group, assign, default_groups, train_adapter, train_all_but, train_only
    from txjax.optim.layer_decay import LayerDecay
    from txjax.optim.optimizers import LARS, SGD, Adafactor, AdamW, Lion, Muon, Optimizer
    from txjax.optim.schedules import (
        Constant,
        Cosine,
        InverseSquareRoot,
        Linear,
        RangeTest,
        Schedule,
        StepDecay,
        WarmupStableDecay,
    )
    from txjax.optim.spikes import Spikes
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "EMA",
    "LARS",
    "SGD",
    "Adafactor",
    "AdamW",
    "Constant",
    "Cosine",
    "Group",
    "InverseSquareRoot",
    "LayerDecay",
    "Linear",
    "Lion",
    "Muon",
    "Optimizer",
    "Schedule",
    "StepDecay",
    "WarmupStableDecay",
    "train_adapter",
    "train_all_but",
    "train_only",
]
