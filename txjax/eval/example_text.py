"""The text of an example, as a model reads it."""

from typing import Any

import numpy as np

from txjax.data import Dataset
from txjax.data.dataset import Example


def example_text(data: Dataset, example: Example) -> str:
    """The text of an example's tokens without padding and special tokens; "" of an example or a set without texts."""
    tokenizer: Any = getattr(data, "tokenizer", None)
    if tokenizer is None or "tokens" not in example:
        return ""
    tokens = example["tokens"][example.get("segments", np.ones_like(example["tokens"])) > 0]
    special = tokenizer.special_ids() or ()
    return tokenizer.decode([int(token) for token in tokens if int(token) not in special])  # type: ignore[no-any-return]
