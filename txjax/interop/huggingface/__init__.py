"""Folders of Hugging Face's transformers: read, written, and called with its own names. `docs/interop.md` tells how.

Neither torch nor transformers is imported, and no pickle is ever opened.
"""

from txjax.interop.huggingface.folder import forward, load, save

__all__ = ["forward", "load", "save"]
