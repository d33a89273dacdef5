"""The number of bytes of text per token of a `tokenizers` tokenizer."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np


def token_bytes(tokenizer: Any) -> np.ndarray | None:
    """`Tokenizer.token_bytes` of a `tokenizers.Tokenizer`. None for WordPiece, which does not keep spaces."""
    size = _size(json.loads(tokenizer.to_str()).get("decoder") or {})
    if size is None:
        return None
    sizes = np.zeros(1 + max(tokenizer.get_vocab(with_added_tokens=True).values()), np.int32)
    for token, number in tokenizer.get_vocab(with_added_tokens=False).items():
        sizes[number] = size(token)
    for number, added in tokenizer.get_added_tokens_decoder().items():
        rewritten = added.normalized and tokenizer.normalizer is not None
        text = tokenizer.normalizer.normalize_str(added.content) if rewritten else added.content
        sizes[number] = 0 if added.special else len(text.replace("▁", " ").encode())
    return sizes


def _size(decoder: dict[str, Any]) -> Callable[[str], int] | None:
    """Returns a function from a token of the vocabulary to its number of bytes, by type of decoder; None if unknown."""
    parts = decoder.get("decoders", [decoder])
    if any(part.get("type") == "ByteLevel" for part in parts):
        return len  # each character stands for one byte
    if any(part.get("type") == "Metaspace" or part.get("pattern") == {"String": "▁"} for part in parts):
        return lambda token: 1 if re.fullmatch(r"<0x[0-9A-F]{2}>", token) else len(token.replace("▁", " ").encode())
    return None
