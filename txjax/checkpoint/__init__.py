"""Checkpoints: written while training goes on, proved by digests; the newest good one is found again."""

from txjax.checkpoint.steps import FOLDER, Checkpoints, is_step
from txjax.checkpoint.store import Store, join, split

__all__ = ["FOLDER", "Checkpoints", "Store", "is_step", "join", "split"]
