"""Folders of Hugging Face's library peft, both ways (`docs/interop.md`). Neither torch nor peft is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.core import meta

from txjax.axes import Axes, axes_of
from txjax.errors import UserError
from txjax.interop.huggingface import weights
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.options import Options, missing_file
from txjax.interop.huggingface.representation import family_for
from txjax.interop.huggingface.rules import Flat, Rule, Shape
from txjax.interop.huggingface.weights import Tensor
from txjax.interop.peft import peft_ia3, peft_lora, peft_options, peft_rows, peft_saved
from txjax.interop.peft.peft_names import Aliases, name_modules, without
from txjax.interop.peft.peft_parts import BEFORE, parts
from txjax.io.files import replace_text
from txjax.nn.adapters import IA3, Adapter, LoRA, MLPPrefix, Prefix, Prompt
from txjax.tree import check_fields, read_json
from txjax.types import flat_paths

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_BARE = r"(?!.*LMHead).*Model"  # architectures whose modules lack the family's prefix
_BEFORE_ROWS = "base_model."  # a prompt's or a prefix's model is not wrapped twice


def load(
    directory: Path | str, model: Any, params: Mapping[str, Any], origin: str | None = None
) -> tuple[Adapter, Flat]:
    """The adapter of a folder, and its parameters by path; among them are those of the base model that it replaces.

    Args:
      model: the base, without an adapter.
      params: its parameters by path, numpy or jax.
      origin: the `model_type` of the files that the base comes from, if it comes from files.

    Raises:
      UserError: the folder is none of peft's, its adapter is none of txjax's or not for this model, or it has an option
        that txjax hasn't.
    """
    where = str(directory)
    directory = Path(directory)
    params = _numpy(params)
    path = directory / CONFIG
    if not path.is_file():
        raise missing_file(directory, CONFIG)
    options = Options(read_json(path), str(path))
    kind = peft_options.check(options)
    family = family_for(model, params, origin=origin)
    known = Options(family.config(model, params))
    names = family.names(known)
    rules = _rules(family, model, params)
    before = BEFORE
    tensors = weights.read(directory, WEIGHTS)
    matrices = list(parts(rules, axes(family, model, known), shapes(params)))
    adapter: Adapter
    if kind in ("LORA", "IA3"):
        others = [_rules(family, model, params, files=True), rules]
        aliases = Aliases(rules, [*others, *(without(names.prefix, file_rules) for file_rules in others)], params)
        there = {BEFORE + aliases.current(name.removeprefix(BEFORE)): name for name in tensors}
        tensors = {name: tensors[old] for name, old in there.items()}
        if kind == "LORA":
            adapter, flat = peft_lora.read(where, options, matrices, tensors, there, params)
        else:
            adapter, flat = peft_ia3.read(where, matrices, tensors)
    else:
        adapter, flat = peft_rows.read(where, options, model, tensors, params)
        before = _BEFORE_ROWS
    check_fields(adapter, str(path))
    left = {name.removeprefix(before): x for name, x in tensors.items()}
    flat |= peft_saved.read(where, rules, names.copies, left, params)
    adapted = axes(family, model.clone(adapter=adapter), known)
    if apart := adapted.keys() ^ (params | flat).keys():
        raise UserError(where, "an adapter of modules that txjax can adapt", min(apart))
    return adapter, flat


def save(
    model: Any,
    params: Mapping[str, Any],
    directory: Path | str,
    trained: Collection[str] = (),
    base: str | None = None,
    family: str | None = None,
    origin: str | None = None,
) -> None:
    """Writes the model's adapter as a folder that peft's `PeftModel.from_pretrained` loads on the exported model.

    Args:
      params: of the model with its adapter, by path, numpy or jax.
      trained: paths of the base model's own parameters that were trained too, such as those of a head.
      base: the name of the base model, for its `base_model_name_or_path`.
      family, origin: the `model_type` that is asked for, and the one of the base's files (`family_for`).

    Raises:
      UserError: an adapter that peft hasn't, or a folder that has weights.
    """
    directory = Path(directory)
    plain = model.clone(adapter=None)
    params = _numpy(params)
    name = getattr(model.adapter, "name", "")
    base_params = {path: x for path, x in params.items() if f"/{name}/" not in f"/{path}"}
    writer = family_for(plain, base_params, family, origin)
    config = Options(writer.config(plain, base_params))
    (architecture,) = config.values["architectures"]
    task, heads = peft_saved.task(plain, architecture)
    rules = _rules(writer, plain, base_params)
    names = writer.names(config)
    before = BEFORE
    if re.fullmatch(_BARE, architecture):
        rules = without(names.prefix, rules)
    matrices = list(parts(rules, axes(writer, plain, config), shapes(base_params)))
    match model.adapter:
        case LoRA() as adapter:
            options, flat = peft_lora.options_and_tensors(adapter, matrices, params)
        case IA3():
            options, flat = peft_ia3.options_and_tensors(matrices, params)
        case Prompt() | Prefix() as adapter if type(adapter) in (Prompt, Prefix):
            options, flat = peft_rows.options_and_tensors(adapter, plain, params)
            before = _BEFORE_ROWS
        case adapter:
            hint = "`txjax merge` turns an MLPPrefix into a Prefix" if isinstance(adapter, MLPPrefix) else ""
            expected = "LoRA, RsLoRA, DoRA, IA3, Prompt or Prefix"
            raise UserError("config.model.adapter", expected, type(adapter).__name__, hint=hint)
    modules, kept, tied = peft_saved.saved_modules(rules, names.copies, heads, trained, flat, base_params)
    tensors = {name: _tensor(x) for name, x in flat.items()} | {before + name: x for name, x in kept.items()}
    weights.write(directory, tensors, 10**12, WEIGHTS)
    facts: dict[str, Any] = {"base_model_name_or_path": base, "inference_mode": True, "task_type": task}
    facts["modules_to_save"] = modules or None
    if tied and isinstance(
        model.adapter, LoRA
    ):  # others have no such option: there table and copy are apart, and equal
        facts["ensure_weight_tying"] = True
    replace_text(directory / CONFIG, json.dumps(facts | options, indent=2) + "\n")


def axes(family: Family, model: Any, options: Options) -> dict[str, Axes]:
    """The logical axes of the model's parameters by path."""
    example = family.example(model, options)
    boxed_params = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)), **example)["params"]
    return {path: axes_of(x) for path, x in flat_paths(boxed_params, is_leaf=_is_boxed).items()}


def shapes(params: Flat) -> dict[str, Shape]:
    return {path: x.shape for path, x in params.items()}


def _rules(family: Family, model: Any, params: Flat, files: bool = False) -> list[Rule]:
    """The rules of the parameters, with the names of modules or those in files."""
    rules = [rule for rule in family.rules(model) if all(path in params for path in rule.param_paths)]
    return rules if files else name_modules(rules, family.model_type)


def _numpy(params: Mapping[str, Any]) -> Flat:
    return {path: np.asarray(x) for path, x in params.items()}


def _is_boxed(node: Any) -> bool:
    return isinstance(node, meta.AxisMetadata)


def _tensor(x: np.ndarray) -> Tensor:
    return Tensor(x.shape, lambda: x)
