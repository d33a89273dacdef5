"""The head that an adapter of peft brings along: the base of a classifier is published with its head of pretraining."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface import weights
from txjax.interop.huggingface.folder import model_of
from txjax.interop.huggingface.options import Options, missing_file
from txjax.interop.huggingface.representation import family_for, tensors_of
from txjax.interop.huggingface.rules import Flat
from txjax.interop.peft import peft_options, peft_saved
from txjax.interop.peft.peft import CONFIG, WEIGHTS
from txjax.interop.peft.peft_parts import BEFORE
from txjax.tree import read_json
from txjax.types import flat_paths


def for_task(
    directory: Path, model: Any, params: Mapping[str, Any], files: Path | None = None, origin: str | None = None
) -> tuple[Any, Flat]:
    """The base as peft has it for an adapter's `task_type`, and its parameters by path: its own, if it has that head.

    Otherwise the head is the one of the task's class, whose weights the adapter has (`modules_to_save`, and what peft
    saves by itself for the task); the base's own head is left out, with a warning.

    Args:
      directory: the adapter's folder.
      model: the base, without an adapter.
      params: its parameters by path, numpy or jax.
      files: the base's folder, if it is one of Hugging Face's: it may have modules that the base's class lacks.
      origin: the `model_type` of the files that the base comes from, if it comes from files.

    Raises:
      UserError: a task whose class txjax doesn't have, or a tensor of the class that neither the base nor the adapter
        has.
    """
    params = {path: np.asarray(x) for path, x in params.items()}
    path = directory / CONFIG
    if not path.is_file():
        raise missing_file(directory, CONFIG)
    options = Options(read_json(path), str(path))
    peft_options.check(options)
    task = options.values.get("task_type")
    part, heads = peft_saved.class_of_task(task)
    family = family_for(model, params, origin=origin)
    config = family.config(model, params) | {"model_type": family.model_type}
    if not part or part in config["architectures"][0]:
        return model, params
    if not (names := [name for name in family.architectures if part in name]):
        hint = f"no class of {family.model_type} here has {part} in its name"
        raise UserError(f"{path}: task_type", "a task whose class txjax has", task, hint=hint)
    modules = {*(options.values.get("modules_to_save") or ()), *heads}
    saved = {name.removeprefix(BEFORE): tensor for name, tensor in weights.read(directory, WEIGHTS).items()}
    saved = {name: tensor for name, tensor in saved.items() if peft_saved.ends_in(name, modules)}
    values = config if files is None else Options.read(files).values
    tensors = tensors_of(family, model, params) if files is None else weights.read(files)
    try:
        like, variables = model_of(Options({**values, "architectures": names[:1]}), {**tensors, **saved})
    except UserError as error:
        hint = f"the adapter's task {task} makes the base a {names[0]}"
        raise UserError(error.field, error.expected, error.got, hint=hint) from None
    return model.clone(head=like.head), flat_paths(variables["params"])
