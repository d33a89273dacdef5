"""(IA)3 in the names and layouts of Hugging Face's peft, whose vectors are the factors themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.rules import Flat
from txjax.interop.huggingface.weights import Tensor, take
from txjax.interop.peft.peft_lora import adapted_matrices
from txjax.interop.peft.peft_parts import Part
from txjax.nn.adapters import IA3

FACTORS = "ia3_l"
_NONE = "(?!)"


def read(where: str, matrices: Sequence[Part], tensors: dict[str, Tensor]) -> tuple[IA3, Flat]:
    """The adapter and its parameters by path. Takes what it reads out of `tensors`; other layers have factors of one.

    Raises:
      UserError: tensors that are not of one adapter of ours; `where` is the folder.
    """
    flat: Flat = {}
    modules: dict[str, list[str]] = {"inputs": [], "outputs": []}
    for part in matrices:
        there = {i: f"{name}.{FACTORS}" for i, name in enumerate(part.names) if f"{name}.{FACTORS}" in tensors}
        if not there:
            continue
        count = len(part.inputs)
        side = "inputs" if {tensors[name].shape for name in there.values()} == {(1, count)} else "outputs"
        shape = (1, count) if side == "inputs" else (len(part.outputs), 1)
        factors = np.ones((len(part.names), max(shape)), np.float32)
        for layer, name in there.items():
            factors[layer] = take(where, tensors, name, shape).reshape(-1)
        scales = [part.inward(factors - 1)] * len(part.modules) if side == "inputs" else part.split(factors - 1)
        flat |= {f"{module}/{IA3.name}/{side}": scale for module, scale in zip(part.modules, scales, strict=True)}
        modules[side] += part.modules
    if not flat:
        raise UserError(where, "an adapter of modules of this model", next(iter(tensors), "no tensor"))
    outputs, inputs = ("|".join(map(re.escape, modules[side])) or _NONE for side in ("outputs", "inputs"))
    return IA3(paths=outputs, inputs=inputs), flat


def options_and_tensors(matrices: Sequence[Part], flat: Flat) -> tuple[dict[str, Any], Flat]:
    """The options and the tensors of an adapter.

    Raises:
      UserError: adapted modules that are no matrices there, or factors of inputs that a matrix there has several of.
    """
    tensors: Flat = {}
    of_inputs: list[str] = []
    of_outputs: list[str] = []
    for part, chosen in adapted_matrices(matrices, flat, f"/{IA3.name}/outputs"):
        scales = [
            flat[f"{module}/{IA3.name}/outputs"] if i in chosen else np.zeros((*part.lead, *shape), np.float32)
            for i, (module, shape) in enumerate(zip(part.modules, part.outsides, strict=True))
        ]
        factors = 1 + part.join(scales)
        tensors |= {f"{name}.{FACTORS}": factors[i][:, None] for i, name in enumerate(part.names)}
        of_outputs.append(part.pattern)
    for part, chosen in adapted_matrices(matrices, flat, f"/{IA3.name}/inputs"):
        scales = [flat[f"{part.modules[i]}/{IA3.name}/inputs"] for i in chosen]
        same = len(chosen) == len(part.modules) and all(np.array_equal(scales[0], scale) for scale in scales)
        if not same or part.pattern in of_outputs:
            expected = "one vector of factors for each matrix in Hugging Face's files"
            raise UserError("config.model.adapter.inputs", expected, part.modules[chosen[0]])
        factors = 1 + part.outward(scales[0])
        tensors |= {f"{name}.{FACTORS}": factors[i][None] for i, name in enumerate(part.names)}
        of_inputs.append(part.pattern)
    options = {
        "peft_type": "IA3",
        "target_modules": "|".join(of_outputs + of_inputs),
        "feedforward_modules": "|".join(of_inputs) or _NONE,
    }
    return options, tensors
