"""Prompts and prefixes in the layouts of Hugging Face's peft: virtual tokens before a text or a source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat
from txjax.interop.huggingface.weights import Tensor, take
from txjax.interop.peft.peft_saved import CAUSAL, PAIRS
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.nn import Learned, T5Relative
from txjax.nn.adapters import Prefix, Prompt

ROWS = "prompt_embeddings"
TABLE = "positions/table/embedding"


def read(
    where: str, options: Options, model: Any, tensors: dict[str, Tensor], base: Flat
) -> tuple[Prompt | Prefix, Flat]:
    """The adapter and its parameters by path. Takes what it reads out of `tensors`.

    A prompt gets the positions that peft adds to it; the text begins after it. peft saves the keys and values that an
    MLP (`prefix_projection`) gives, so they are a `Prefix`.

    Raises:
      UserError: another task than causal language modelling or a prompt of T5's source, or other sizes.
    """
    task = options.values.get("task_type")
    count = options.size("num_virtual_tokens", 0)
    prompt = options.values["peft_type"] == "PROMPT_TUNING"
    if prompt and task == PAIRS and _relative(model):
        if (stacks := options.values.get("num_transformer_submodules")) != 1:
            raise UserError(f"{where}: num_transformer_submodules", "1, a prompt before the source alone", stacks)
        rows = take(where, tensors, ROWS, (count, model.width))
        return Prompt(paths="encoder/layers", length=count), {"encoder/prompt/tokens": rows}
    _check(where, task, model)
    if prompt:
        rows = take(where, tensors, ROWS, (count, model.width))
        if isinstance(model.positions, Learned):
            rows = rows + base[TABLE][:count]
        return Prompt(length=count, first_position=count), {"prompt/tokens": rows}
    shape = prefix_shape(model)
    rows = take(where, tensors, ROWS, (count, math.prod(shape)))
    keys = rows.reshape(count, *shape).transpose(1, 2, 0, 3, 4)  # [layers 2 n G K]
    prefix_path = "layers/block/attention/prefix"
    adapter = Prefix(paths="layers/block/attention", length=count, first_position=count)
    return adapter, {f"{prefix_path}/key": keys[:, 0], f"{prefix_path}/value": keys[:, 1]}


def options_and_tensors(adapter: Prompt | Prefix, model: Any, flat: Flat) -> tuple[dict[str, Any], Flat]:
    """The options and the tensors of an adapter.

    Raises:
      UserError: no causal model, or an adapter that peft can't represent.
    """
    if isinstance(adapter, Prompt) and _relative(model):
        if "decoder/prompt/tokens" in flat:
            expected = "encoder/layers: peft has one prompt for both stacks, or one before the source"
            raise UserError("config.model.adapter.paths", expected, adapter.paths)
        sizes = _sizes(adapter, model, PAIRS)
        return {"peft_type": "PROMPT_TUNING", "prompt_tuning_init": "RANDOM", **sizes}, {
            ROWS: flat["encoder/prompt/tokens"]
        }
    _check("config.model", CAUSAL, model)
    if adapter.first_position != adapter.length:
        expected = f"{adapter.length}, its length: in peft a text begins after its virtual tokens"
        raise UserError("config.model.adapter.first_position", expected, adapter.first_position)
    options = _sizes(adapter, model, CAUSAL)
    if isinstance(adapter, Prompt):
        rows = flat["prompt/tokens"]
        if isinstance(model.positions, Learned):
            rows = rows - flat[TABLE][: adapter.length]
        return {"peft_type": "PROMPT_TUNING", "prompt_tuning_init": "RANDOM", **options}, {ROWS: rows}
    prefix_path = "layers/block/attention/prefix"
    if f"{prefix_path}/key" not in flat:
        raise UserError("config.model.adapter.paths", "the attention of all layers", adapter.paths)
    groups = model.kv_heads or model.heads
    _, size = prefix_shape(model)[2:]
    rows = np.stack([flat[f"{prefix_path}/{name}"] for name in ("key", "value")], 1).transpose(2, 0, 1, 3, 4)
    own_sizes = {"num_attention_heads": groups, "token_dim": groups * size}
    more = {"prefix_projection": False, "encoder_hidden_size": model.width}
    return {"peft_type": "PREFIX_TUNING", **options, **own_sizes, **more}, {ROWS: rows.reshape(adapter.length, -1)}


def _sizes(adapter: Prompt | Prefix, model: Any, task: str) -> dict[str, Any]:
    return {
        "task_type": task,
        "num_virtual_tokens": adapter.length,
        "num_transformer_submodules": 1,
        "num_layers": model.depth,
        "num_attention_heads": model.heads,
        "token_dim": model.width,
    }


def _relative(model: Any) -> bool:
    """Whether it is an encoder-decoder in which a prompt shifts no position."""
    return isinstance(model, EncoderDecoder) and isinstance(model.positions, T5Relative)


def prefix_shape(model: Any) -> tuple[int, int, int, int]:
    """layers, 2 (key and value), G and K."""
    return model.depth, 2, model.kv_heads or model.heads, model.head_size()


def _check(where: str, task: Any, model: Any) -> None:
    if task != CAUSAL or not isinstance(model, Decoder):
        got = f"{task} for {type(model).__name__}"
        hint = "elsewhere heads, cross-attention or relative positions see peft's virtual tokens"
        raise UserError(where, f"a prompt or prefix of a causal language model ({CAUSAL})", got, hint=hint)
