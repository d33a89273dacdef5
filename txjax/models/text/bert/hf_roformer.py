"""RoFormer (Su et al. 2021): BERT with rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Rule, TensorLayout
from txjax.interop.huggingface.shared.encoder import INPUTS, Encoder
from txjax.interop.huggingface.shared.encoder_heads import Alone, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked
from txjax.models.text.bert.bert import Bert as Model
from txjax.models.text.bert.hf_bert import BASE, DEFAULTS, PREDICTIONS
from txjax.nn import Positions, Rotary

_TABLE = "roformer.encoder.embed_positions.weight"
_POSITIONS = 1536  # rows of their table of sines, which we have no need for


class RoFormer(Encoder):
    """Their rotation pairs neighbouring channels, ours channels of the two halves."""

    model_type = "roformer"
    position_kind = Rotary
    named = "RoFormer"
    txjax_model = "`Bert` with `positions=Rotary()`"
    base = "roformer"
    defaults = DEFAULTS | BASE | {"vocab_size": 50000}
    heads = (
        Masked(**PREDICTIONS),
        Texts(pooler="classifier.dense", out="classifier.out_proj", activation="gelu", key="hidden_act"),
        Tokens(),
        Spans(),
        Alone(),
    )
    names_of_inputs = {theirs: ours for theirs, ours in INPUTS.items() if ours != "positions"}
    embed_in = "roformer.embeddings_project"
    other_modules = ("roformer.pooler.dense", "sequence_summary.summary")  # of an older class, and multiple choice

    def matches(self, model: Any) -> bool:
        return type(model) is Model and type(model.positions) is Rotary

    def positions(self, options: Options) -> Positions:
        options.require(rotary_value=False)
        return Rotary()

    def model_config(self, model: Model) -> dict[str, Any]:
        return super().model_config(model) | {"max_position_embeddings": _POSITIONS, "rotary_value": False}

    def tables(self, model: Model) -> list[Rule]:
        return self.types(model)

    def layers(self, model: Model) -> list[Rule]:
        return [_paired(rule) for rule in super().layers(model)]

    def constants(self, model: Model) -> dict[str, np.ndarray]:
        size = model.head_size()
        angles = np.arange(_POSITIONS)[:, None] / 10000.0 ** (np.arange(0, size, 2) / size)
        return {_TABLE: np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)}


def _paired(rule: Rule) -> Rule:
    """The rule, with the channels of queries and keys in the order of their pairs."""
    if rule.param_paths[0].split("/")[-2] not in ("query", "key"):
        return rule
    form = rule.form
    return rule._replace(
        form=TensorLayout(
            lambda x: form.theirs(_reordered(x, 2, x.shape[-1] // 2)),
            lambda x, shape: _reordered(form.ours(x, shape), shape[-1] // 2, 2),
        )
    )


def _reordered(x: np.ndarray, first: int, second: int) -> np.ndarray:
    """The last dimension as a matrix of this shape, column by column."""
    return x.reshape(*x.shape[:-1], first, second).swapaxes(-1, -2).reshape(x.shape)
