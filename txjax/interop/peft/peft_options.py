"""Options of the adapters of Hugging Face's peft: those that txjax reads, those that change nothing, and all others."""

from __future__ import annotations

from typing import Any

from txjax.errors import UserError, near_misses
from txjax.interop.huggingface.options import Options

# Facts about the file, and what the tensors' names and shapes say as well.
_ALL = {
    "auto_mapping",
    "base_model_name_or_path",
    "inference_mode",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "revision",
    "task_type",
}
_TARGETS = {"exclude_modules", "fan_in_fan_out", "target_modules"}
_ROWS = {"num_attention_heads", "num_layers", "num_transformer_submodules", "num_virtual_tokens", "token_dim"}

# By the kind of adapter, the options that `load` reads or that don't change the function of trained tensors.
KNOWN: dict[str, set[str]] = {
    "LORA": _ALL
    | _TARGETS
    | {"r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern", "use_dora", "use_rslora"}
    | {"layers_to_transform", "layers_pattern", "ensure_weight_tying"}
    | {"megatron_core", "qalora_group_size", "runtime_config"}  # read only where another option is set
    | {"corda_config", "eva_config", "loftq_config", "lora_ga_config"},  # read by `init_lora_weights` alone
    "IA3": _ALL | _TARGETS | {"feedforward_modules", "init_ia3_weights"},
    "PROMPT_TUNING": _ALL
    | _ROWS
    | {"prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_kwargs", "tokenizer_name_or_path"},
    "PREFIX_TUNING": _ALL | _ROWS | {"encoder_hidden_size", "init_weights", "prefix_projection"},
}
# Options with some values that change nothing.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": ("none", None),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal", "mica"),
}
# Names of modules: what else than a list of them, or null, an option may be.
_ONE = ", or a pattern"
_NAMES = {
    "target_modules": _ONE,
    "exclude_modules": _ONE,
    "feedforward_modules": _ONE,
    "layers_pattern": _ONE,
    "modules_to_save": "",
}
_TEXTS = ("task_type", "base_model_name_or_path", "revision")
_HINTS = {
    "init_lora_weights": "others change the base's weights: save_pretrained(path_initial_model_for_weight_conversion)"
    " makes a LoRA of it"
}


def check(options: Options) -> str:
    """The kind of adapter. Raises UserError for another kind, and for an option that txjax hasn't, unless it is off."""
    kind = options.values.get("peft_type")
    if not isinstance(kind, str) or kind not in KNOWN:
        near = near_misses(str(kind)[:100], KNOWN)
        raise UserError(f"{options.file}: peft_type", "one of " + ", ".join(KNOWN), kind, near)
    for name, value in options.values.items():
        if name in _NAMES and not _has_names(value, _NAMES[name]):
            raise options.refuse(name, f"a list of names{_NAMES[name]}", value)
        if name in _TEXTS and not isinstance(value, str | None):
            raise options.refuse(name, "a text, or null", value)
        if name in KNOWN[kind]:
            continue
        if name in _PLAIN and value not in _PLAIN[name]:
            expected = " or ".join(map(repr, _PLAIN[name]))
            raise UserError(f"{options.file}: {name}", expected, value, hint=_HINTS.get(name, ""))
        if name not in _PLAIN and value not in (None, False, "", [], {}):
            near = near_misses(name, KNOWN[kind])
            raise UserError(f"{options.file}: {name}", f"no such option of {kind}, or one that is off", value, near)
    return kind


def _has_names(value: Any, alternative: str) -> bool:
    """Whether a value is a list of texts or null, or, if there is that alternative, one text."""
    if isinstance(value, str):
        return bool(alternative)
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))
