"""Folders of Hugging Face's library peft, both ways (`docs/interop.md`). Neither torch nor peft is imported."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.core import meta

from txjax.axes import Axes, axes_of
from txjax.interop.huggingface import peft_lora, peft_rows, weights
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.folder import family_of
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Rule, scatter
from txjax.interop.huggingface.weights import Tensor
from txjax.io.files import replace_text
from txjax.nn.adapters import Adapter, LoRA, MLPPrefix, Prefix, Prompt
from txjax.tree import read_json
from txjax.types import UserError, flat_paths, near_misses

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
KINDS = ("LORA", "PROMPT_TUNING", "PREFIX_TUNING")


def load(directory: Path | str, model: Any, params: Flat) -> tuple[Adapter, Flat]:
    """The adapter of a folder, and its parameters by path; among them are those of the base model that it replaces.

    Args:
      model: the base, without an adapter.
      params: its parameters by path, numpy.

    Raises:
      UserError: the folder is none of peft's, or its adapter is none of txjax's or not for this model.
    """
    directory = Path(directory)
    path = directory / CONFIG
    if not path.is_file():
        raise UserError(str(directory), f"a folder with {CONFIG}", "none")
    config, tensors = read_json(path), weights.read(directory, WEIGHTS)
    if (kind := config.get("peft_type")) not in KINDS:
        raise UserError(f"{path}: peft_type", "one of " + ", ".join(KINDS), kind, near_misses(str(kind), KINDS))
    family, where = family_of(model), str(directory)
    rules = family.rules(model)
    adapter: Adapter
    if kind == "LORA":
        found = list(peft_lora.parts(rules, axes(family, model, params), shapes(params)))
        adapter, flat = peft_lora.read(where, config, found, tensors, params)
    else:
        adapter, flat = peft_rows.read(where, config, model, tensors, params)
    flat |= replaced(where, rules, tensors, params)
    return adapter, flat


def save(
    model: Any, params: Flat, directory: Path | str, trained: Collection[str] = (), base: str | None = None
) -> None:
    """Writes the model's adapter as a folder that peft's `PeftModel.from_pretrained` loads on the exported model.

    Args:
      params: of the model with its adapter, by path, numpy.
      trained: paths of the base model's own parameters that were trained too, such as those of a head.
      base: the name of the base model, for its `base_model_name_or_path`.

    Raises:
      UserError: an adapter that peft hasn't, or a folder that has weights.
    """
    directory, plain = Path(directory), model.clone(adapter=None)
    family = family_of(plain)
    rules = family.rules(plain)
    match model.adapter:
        case LoRA() as adapter:
            own = {path: x for path, x in params.items() if f"/{adapter.name}/" not in path}
            found = list(peft_lora.parts(rules, axes(family, plain, own), shapes(own)))
            options, flat = peft_lora.written(adapter, found, params)
        case Prompt() | Prefix() as adapter if type(adapter) in (Prompt, Prefix):
            options, flat = peft_rows.written(adapter, plain, params)
        case adapter:
            hint = "`txjax merge` turns an MLPPrefix into a Prefix" if isinstance(adapter, MLPPrefix) else ""
            expected = "LoRA, RsLoRA, DoRA, Prompt or Prefix"
            raise UserError("config.model.adapter", expected, type(adapter).__name__, hint=hint)
    tensors = {name: _tensor(x) for name, x in flat.items()}
    kept = scatter([rule for rule in rules if set(rule.ours) & set(trained)], params)
    if left := set(trained) - {path for rule in rules for path in rule.ours}:
        raise UserError("config.optimizer.groups", "an adapter and modules of Hugging Face's model", min(left))
    tensors |= {peft_lora.BEFORE + name: tensor for name, tensor in kept.items()}
    modules = sorted({name.rpartition(".")[0].rpartition(".")[2] for name in kept})
    weights.write(directory, tensors, 10**12, WEIGHTS)
    named = {"base_model_name_or_path": base, "inference_mode": True, "modules_to_save": modules or None}
    replace_text(directory / CONFIG, json.dumps(named | options, indent=2) + "\n")


def replaced(where: str, rules: list[Rule], tensors: dict[str, Tensor], params: Flat) -> Flat:
    """Our parameters that the rest of the tensors are, such as those of a new head.

    Raises:
      UserError: a tensor that is none of the model's, or of another shape.
    """
    left = {name.removeprefix(peft_lora.BEFORE): tensor for name, tensor in tensors.items()}
    flat: Flat = {}
    for rule in (rule for rule in rules if "{}" not in rule.theirs and len(rule.ours) == 1 and rule.theirs in left):
        (path,), tensor = rule.ours, left.pop(rule.theirs)
        shape = rule.form.theirs(params[path]).shape
        if tensor.shape != shape:
            raise UserError(where, f"{rule.theirs} of {list(shape)}, for this model", list(tensor.shape))
        flat[path] = rule.form.ours(tensor.read(), params[path].shape)
    if left:
        raise UserError(where, "an adapter of modules of this model", min(left), hint=f"{len(left)} such tensors")
    return flat


def axes(family: Family, model: Any, params: Flat) -> dict[str, Axes]:
    """The logical axes of the model's parameters by path."""
    example = family.example(model, Options(family.config(model, params)))
    drawn = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)), **example)["params"]
    return {path: axes_of(x) for path, x in flat_paths(drawn, is_leaf=_boxed).items()}


def shapes(params: Flat) -> dict[str, tuple[int, ...]]:
    return {path: x.shape for path, x in params.items()}


def _boxed(node: Any) -> bool:
    return isinstance(node, meta.AxisMetadata)


def _tensor(x: np.ndarray) -> Tensor:
    return Tensor(x.shape, lambda: x)
