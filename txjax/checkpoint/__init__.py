"""Checkpoints: saved in the background, verified by digests; a run resumes from the newest undamaged one."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.checkpoint.steps import FOLDER, Checkpoints, is_step
    from txjax.checkpoint.store import Store, join, split
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "Checkpoints",
]
