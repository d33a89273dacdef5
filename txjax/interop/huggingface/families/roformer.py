"""RoFormer (Su et al. 2021): `RoFormerForMaskedLM`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.interop.huggingface.families.bert import Bert
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Form, Names, Rule
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert as Model
from txjax.nn import Rotary

_TABLE = "roformer.encoder.embed_positions.weight"
_POSITIONS = 1536  # rows of their table of sines, which we have no need for
_DEFAULTS = {"vocab_size": 50000}
_HEAD = "cls.predictions."


class RoFormer(Bert):
    """BERT with rotary positions. Their rotation pairs neighbouring channels, ours channels of the two halves."""

    model_type = "roformer"
    architectures = ("RoFormerForMaskedLM",)
    inputs = ("input_ids", "attention_mask", "token_type_ids")

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model) and isinstance(model.positions, Rotary)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        options.fixed(rotary_value=False)
        options = Options(_DEFAULTS | options.values)
        if options.values.get("embedding_size") is not None:
            options.same("hidden_size", "embedding_size", 768)
        return super().model(options, tensors).clone(positions=Rotary())

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        own = super().config(model, flat) | {"embedding_size": model.width, "rotary_value": False}
        return own | {"architectures": [self.architectures[0]], "max_position_embeddings": _POSITIONS}

    def names(self, options: Options) -> Names:
        copies = {
            f"{_HEAD}decoder.weight": "roformer.embeddings.word_embeddings.weight",
            f"{_HEAD}decoder.bias": f"{_HEAD}bias",
        }
        return Names("roformer.", copies)

    def rules(self, model: Any) -> list[Rule]:
        found = [rule for rule in super().rules(model) if "positions/table/embedding" not in rule.ours]
        return [_paired(rule._replace(theirs=rule.theirs.replace("bert.", "roformer.", 1))) for rule in found]

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        size = model.head_size()
        angles = np.arange(_POSITIONS)[:, None] / 10000.0 ** (np.arange(0, size, 2) / size)
        return {_TABLE: np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)}


def _paired(rule: Rule) -> Rule:
    """The rule, with the channels of queries and keys in the order of their pairs."""
    if rule.ours[0].split("/")[-2] not in ("query", "key"):
        return rule
    form = rule.form
    return rule._replace(
        form=Form(
            lambda x: form.theirs(_reordered(x, 2, x.shape[-1] // 2)),
            lambda x, shape: _reordered(form.ours(x, shape), shape[-1] // 2, 2),
        )
    )


def _reordered(x: np.ndarray, first: int, second: int) -> np.ndarray:
    """The last dimension as a matrix of this shape, column by column."""
    return x.reshape(*x.shape[:-1], first, second).swapaxes(-1, -2).reshape(x.shape)
