"""Reads a folder into a txjax model and its weights, and writes one."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import traverse_util
from flax.core import meta

from txjax import tree
from txjax.errors import UserError
from txjax.interop.huggingface import rules, weights
from txjax.interop.huggingface.audio_reading import read_front_end, with_front_end
from txjax.interop.huggingface.catalog import class_of, family_of
from txjax.interop.huggingface.config_keys import in_keys
from txjax.interop.huggingface.family import Family, arrays
from txjax.interop.huggingface.options import FILE, Limits, Options
from txjax.interop.huggingface.representation import describe, family_for, tensors_of
from txjax.io.files import replace_text
from txjax.types import PyTree

log = logging.getLogger("txjax")
_SHARD_BYTES = 5 * 10**9
_SMALL = 4096  # sizes up to this need no tensor: of images, windows and positions that are computed
_FEW_LAYERS = 256  # that may share their tensors


def load(directory: Path | str) -> tuple[Any, PyTree]:
    """Reads a folder with config.json and safetensors. Returns the model and its variables, numpy float32.

    A model of audio has the front end of its preprocessor_config.json, if there is one.

    Raises:
      UserError: an architecture or an option that txjax doesn't have (named by its key), weights that are pickles,
        tensors that are missing, unknown or of another shape.
    """
    model, variables = model_of(Options.read(Path(directory)), weights.read(Path(directory)))
    if (front_end := read_front_end(Path(directory))) is not None:
        model = with_front_end(model, front_end)
    return model, variables


def limits_of(tensors: Mapping[str, weights.Tensor]) -> Limits:
    """The largest sizes of a model with these tensors: none is larger than a dimension but few small ones."""
    largest = max((max(tensor.shape, default=1) for tensor in tensors.values()), default=1)
    return Limits(layers=max(len(tensors), _FEW_LAYERS), others=max(largest, _SMALL))


def model_of(options: Options, tensors: Mapping[str, weights.Tensor]) -> tuple[Any, PyTree]:
    """The model of a config.json with these tensors, and its variables; raises as `load` does."""
    family, options = class_of(Options(options.values, options.file, options.prefix, limits_of(tensors)))
    options, names, tensors = _without_copies(family, options, tensors)
    try:
        model = family.model(options, tensors)
        tree.check_fields(model, "config.model")
        shapes = _shapes(family, model, options)
    except UserError as error:
        raise in_keys(error, options) from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]  # of values that no reader of a family expects
        raise UserError(FILE, f"values that a {family.model_type} has", hint=lines[0][:200]) from error
    for name in family.constants(model):
        tensors.pop(name, None)
    flat = rules.gather(family.rules(model), shapes, tensors, names.heads)
    params = traverse_util.unflatten_dict(flat, sep="/")
    state = {name: params.pop(name) for name in family.state}
    return model, {"params": params, **state}


def save(
    model: Any,
    variables: PyTree,
    directory: Path | str,
    extra: Mapping[str, Any] | None = None,
    shard_bytes: int = _SHARD_BYTES,
    family: str | None = None,
) -> None:
    """Writes config.json and float32 safetensors that transformers' `from_pretrained` loads.

    Missing biases are written as zeros. Fields that concern only training (initialisation, rematerialisation,
    dropout inside the MLP) are not written.

    Args:
      variables: numpy or jax arrays.
      extra: further keys of config.json, such as `id2label`; keys of the architecture come from the model. A
        `model_type` among them is kept if that family has the model, too.
      shard_bytes: largest size of a file, except for a single larger tensor.
      family: the `model_type` to write, of the families that have the model.

    Raises:
      UserError: a field of the model that the format can't represent; variables of other collections than the
        format's; a folder that already has weights.
    """
    directory = Path(directory)
    extra = dict(extra or {})
    state = family_of(model).state  # that of all families of a model
    if set(variables) != {"params", *state}:
        expected = " and ".join(("parameters", *state)) + " alone" * (not state)
        got = ", ".join(sorted(set(variables) - {"params"})) or "parameters alone"
        raise UserError("config.model", f"a model with {expected}", got)
    flat = {path: np.asarray(leaf) for path, leaf in _flat(variables).items()}
    writer = family_for(model, flat, family, extra.get("model_type"))
    config, like = describe(writer, model, flat, extra)
    zeros = {
        path: np.zeros(shape) for path, shape in _shapes(writer, like, Options(config)).items() if path.endswith("bias")
    }
    tensors = tensors_of(writer, like, zeros | flat)
    weights.write(directory, tensors, shard_bytes)
    replace_text(directory / FILE, json.dumps(config, indent=2) + "\n")


def forward(model: Any, variables: PyTree, inputs: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The outputs of the reference in evaluation, with inputs and outputs under its names.

    A pure function, so `jax.jit(functools.partial(forward, model))` works.

    Raises:
      UserError: a model of no family, or an unknown input.
    """
    family = family_of(model)
    return family.forward(model, meta.unbox(variables), arrays(family, inputs))


def _without_copies(
    family: Family, options: Options, tensors: Mapping[str, weights.Tensor]
) -> tuple[Options, rules.Names, dict[str, weights.Tensor]]:
    """The tensors under current names, without the copies that the options have; and the options and names for them.

    As in the reference, tensors that config.json ties are untied if they differ in the file.

    Raises:
      UserError: a copy that differs from its original in a model that has no untied form.
    """
    names = family.names(options)
    current = rules.tidy(tensors, names)
    for copy in rules.unequal(current, names.copies):
        if not names.untied:
            hint = f"{FILE} ties them, and txjax's {family.model_type} has no untied form"
            raise UserError(copy, f"the same numbers as {names.copies[copy]}", "others", hint=hint)
        entries = ", ".join(f"{key}: {json.dumps(value)}" for key, value in names.untied.items())
        log.warning("%s differs from %s, though %s ties them; read as %s", copy, names.copies[copy], FILE, entries)
        options = options.with_values({**options.values, **names.untied})
    names = family.names(options)
    return options, names, {x: current[x] for x in current if names.copies.get(x) not in current}


def _shapes(family: Family, model: Any, options: Options) -> dict[str, tuple[int, ...]]:
    """The shapes of our arrays by path."""
    example = family.example(model, options)
    variables = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)), **example)
    return {
        path: leaf.shape for path, leaf in _flat({name: variables[name] for name in ("params", *family.state)}).items()
    }


def _flat(variables: PyTree) -> dict[str, Any]:
    """The leaves by path, below `params` or, of other collections, from the collection's name on."""
    collections = dict(meta.unbox(variables))
    return traverse_util.flatten_dict(collections.pop("params") | collections, sep="/")
