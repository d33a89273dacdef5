"""The keys of config.json in errors about a model that was read from one: its reader has no other names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from txjax.errors import UserError
from txjax.interop.huggingface.options import FILE, Options

_OURS = re.compile(r"config\.model\.?|[A-Z]\w*\.")  # the path of the model, or the name of a class inside it
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_SIDES = ("decoder_attention_heads", "encoder_attention_heads", "decoder_num_attention_heads")
# Ends of paths of our fields, and the keys that may set them.
_KEYS: dict[str, tuple[str, ...]] = {
    "width": ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "embed_dim", "hidden_sizes", "decoder_hidden_size"),
    "depth": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depths", "depth", "decoder_layers"),
    "heads": (*_HEADS, *_SIDES, "head_dim"),
    "kv_heads": ("num_key_value_heads",),
    "head_size": ("head_dim", "d_kv"),
    "dropout": ("hidden_dropout_prob", "resid_pdrop", "resid_dropout", "dropout", "dropout_rate", "drop_rate"),
    "mixer.dropout": (
        "attention_probs_dropout_prob",
        "attn_pdrop",
        "attention_dropout",
        "attention_drop_rate",
        "dropout_rate",
    ),
    "mlp.dropout": ("activation_dropout", "dropout_rate"),
    "drop_path": ("drop_path_rate",),
    "eps": ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps"),
    "positions.theta": ("rope_theta", "rope_parameters"),
    "positions.scaling": ("rope_parameters", "rope_scaling"),
    "positions.max_length": ("max_position_embeddings", "n_positions", "image_size", "max_length"),
    "positions.buckets": ("relative_attention_num_buckets", "position_buckets"),
    "positions.max_distance": ("relative_attention_max_distance", "max_relative_positions", "max_position_embeddings"),
    "groups": ("num_groups",),
    "mixer.side": ("window_size", "pool_size", "kernel_qkv"),
    "patch": ("patch_size", "image_size"),
    "stride": ("frequency_stride", "time_stride"),
    "downsample": ("image_size", "patch_sizes"),
}


def in_keys(error: UserError, options: Options) -> UserError:
    """The error with a key of config.json for its field, if the field is one of the model's.

    A field that no key sets alone is named beside the file.

    Args:
      options: of the file.
    """
    if not _OURS.match(error.field):
        return error
    field = _OURS.sub("", error.field, count=1)
    values = dict(_entries(options.values))
    keys = [key for key in values if key.rpartition(".")[2] in _keys_of(field)]
    key = next((key for key in keys if _has(values[key], error.got)), next(iter(keys), None))
    if key is not None:
        return UserError(f"{options.file}: {key}", error.expected, error.got, error.near)
    hint = "; ".join(filter(None, (f"it gives txjax's model the field {field}" if field else "", error.hint)))
    return UserError(FILE, error.expected, error.got, error.near, hint)


def _keys_of(field: str) -> tuple[str, ...]:
    """The keys of the longest part of a path that has any, of those that end last."""
    steps = field.split(".")
    spans = [(end, start) for end in range(len(steps), 0, -1) for start in range(end)]
    return next((_KEYS[name] for end, start in spans if (name := ".".join(steps[start:end])) in _KEYS), ())


def _entries(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries, with those of objects inside them under names such as `vision_config.hidden_size`."""
    for key, value in values.items():
        yield prefix + key, value
        if isinstance(value, dict):
            yield from _entries(value, f"{prefix}{key}.")


def _has(value: Any, part: Any) -> bool:
    """Whether a value of config.json is this one, or a list that has it."""
    return value == part or (isinstance(value, list) and part in value)
