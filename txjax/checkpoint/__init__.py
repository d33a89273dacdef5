"""Checkpoints: saved in the background, verified by digests; a run resumes from the newest undamaged one."""

from txjax.checkpoint.steps import FOLDER, Checkpoints, is_step
from txjax.checkpoint.store import Store, join, split

__all__ = [
    "Checkpoints",
]
