"""LoRA, rsLoRA and DoRA in the names and layouts of Hugging Face's peft."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.peft_patterns import module_pattern
from txjax.interop.huggingface.rules import Flat
from txjax.interop.huggingface.weights import Tensor, check_shape, take
from txjax.interop.peft.peft_parts import BEFORE, Part
from txjax.nn.adapters import DoRA, LoRA, RsLoRA

DOWN = "lora_A.weight"
UP = "lora_B.weight"
MAGNITUDE = "lora_magnitude_vector"


def read(
    where: str,
    options: Options,
    matrices: Sequence[Part],
    tensors: dict[str, Tensor],
    names: Mapping[str, str],
    base: Flat,
) -> tuple[LoRA, Flat]:
    """The adapter and its parameters by path. Takes what it reads out of `tensors`.

    It has the largest rank; where the folder has another one or another alpha, `down` and `up` have zeros and `up` has
    the ratio of the factors, and where it has no adapter, zeros: the function is the same.

    Args:
      where: the folder.
      names: of the tensors in the folder, which its patterns match.

    Raises:
      UserError: tensors that are not of one adapter of ours.
    """
    kind = DoRA if options.get("use_dora", False) else RsLoRA if options.get("use_rslora", False) else LoRA
    if kind is DoRA:
        options.require(use_rslora=False)
    default = kind(rank=options.size("r", 8), alpha=_alpha(options, "lora_alpha", 8.0))
    sized = _Sizes(options, default)
    sizes = {
        name: sized.for_module(names[f"{name}.{DOWN}"].removeprefix(BEFORE).removesuffix(f".{DOWN}"))
        for part in matrices
        for name in part.names
        if f"{name}.{DOWN}" in tensors
    }
    if not sizes:
        raise UserError(where, "an adapter of modules of this model", next(iter(tensors), "no tensor"))
    present = [part for part in matrices if not sizes.keys().isdisjoint(part.names)]
    for part in present:
        for name in filter(sizes.__contains__, part.names):  # before memory is taken for them
            check_shape(where, tensors, f"{name}.{DOWN}", (sizes[name].rank, len(part.inputs)))
    adapter = _with_rank(default, max(size.rank for size in sizes.values()))
    adapter.paths = "|".join(re.escape(module) for part in present for module in part.modules)
    adapter.dropout = options.get("lora_dropout", 0.0)
    flat: Flat = {}
    for part in present:
        layers = len(part.names)
        inputs = len(part.inputs)
        outputs = len(part.outputs)
        down = np.zeros((layers, inputs, adapter.rank))
        up = np.zeros((layers, adapter.rank, outputs))
        norms = part.join([part.norms(base[f"{module}/kernel"]) for module in part.modules])
        magnitudes = np.zeros_like(norms)
        for layer, name in enumerate(part.names):
            if (size := sizes.get(name)) is None:
                continue
            down[layer, :, : size.rank] = take(where, tensors, f"{name}.{DOWN}", (size.rank, inputs)).T
            own_up = take(where, tensors, f"{name}.{UP}", (outputs, size.rank)).T
            up[layer, : size.rank] = own_up * (size.factor / adapter.factor)
            if kind is DoRA:
                if not norms[layer].all():
                    raise UserError(where, "no DoRA of a matrix with a column of zeros", name)
                magnitudes[layer] = take(where, tensors, f"{name}.{MAGNITUDE}", (outputs,)) / norms[layer] - 1
        pieces = zip(part.modules, part.split(up), part.split(magnitudes), strict=True)
        for module, up_kernel, relative in pieces:
            flat |= {
                f"{module}/{kind.name}/down/kernel": part.inward(down),
                f"{module}/{kind.name}/up/kernel": up_kernel,
            }
            if kind is DoRA:
                flat[f"{module}/{kind.name}/magnitude"] = relative
    return adapter, {path: x.astype(np.float32) for path, x in flat.items()}


class _Sizes:
    """The ranks and alphas that peft gives to the modules of a base.

    Args:
      default: the adapter of the modules that no pattern matches.

    Raises:
      UserError: a pattern that is invalid or unbounded, or a rank or alpha that no adapter has.
    """

    def __init__(self, options: Options, default: LoRA):
        self._default = default
        self._ranks = _by_pattern(options, "rank_pattern", lambda inside, key: inside.size(key, default.rank))
        self._alphas = _by_pattern(options, "alpha_pattern", lambda inside, key: _alpha(inside, key, default.alpha))

    def for_module(self, module: str) -> LoRA:
        """The adapter with the rank and alpha of a module."""

        def first_match(patterns: Sequence[tuple[re.Pattern[str], Any]], otherwise: float) -> Any:
            return next((number for pattern, number in patterns if pattern.match(module)), otherwise)

        rank = first_match(self._ranks, self._default.rank)
        alpha = first_match(self._alphas, self._default.alpha)
        return dataclasses.replace(self._default, rank=rank, alpha=alpha)


def _by_pattern(
    options: Options, key: str, read_number: Callable[[Options, str], Any]
) -> list[tuple[re.Pattern[str], Any]]:
    """The numbers of an object in the options with their patterns, which are its keys."""
    inside = options.part(key)
    field = f"{options.file}: {key}"
    return [(module_pattern(text, field), read_number(inside, text)) for text in inside.values]


def _alpha(options: Options, key: str, default: float) -> float:
    """An alpha. Raises UserError unless it is above 0: an adapter of factor 0 is none."""
    alpha = options.get(key, default)
    if alpha <= 0:
        raise options.refuse(key, "a number above 0", alpha)
    return alpha


def _with_rank(adapter: LoRA, rank: int) -> LoRA:
    """The adapter with another rank, and the alpha that leaves its factor."""
    resized = dataclasses.replace(adapter, rank=rank)
    return dataclasses.replace(resized, alpha=adapter.alpha * (adapter.factor / resized.factor))


def options_and_tensors(adapter: LoRA, matrices: Sequence[Part], flat: Flat) -> tuple[dict[str, Any], Flat]:
    """The options and the tensors of an adapter.

    A matrix of which several of our kernels are adapted has one `lora_A`: if theirs are not the same, all of them one
    below the other, and `lora_B` is zero but in the blocks of each.

    Raises:
      UserError: adapted modules that are no matrices there.
    """
    tensors: Flat = {}
    patterns: dict[str, LoRA] = {}
    for part, chosen in adapted_matrices(matrices, flat, f"/{adapter.name}/down/kernel"):
        paths = {i: f"{part.modules[i]}/{adapter.name}" for i in chosen}
        downs = [part.outward(flat[f"{path}/down/kernel"]) for path in paths.values()]
        shared = len(paths) == len(part.modules) and all(np.array_equal(downs[0], down) for down in downs)
        sized = adapter if shared else _with_rank(adapter, len(paths) * adapter.rank)
        ups = []
        for i, shape in enumerate(part.outsides):
            block = np.zeros((*part.lead, sized.rank, *shape), np.float32)
            if i in paths:
                first = 0 if shared else chosen.index(i) * adapter.rank
                rows = slice(first, first + adapter.rank)
                block[(*[slice(None)] * len(part.lead), rows)] = flat[f"{paths[i]}/up/kernel"]
            ups.append(block)
        down = downs[0] if shared else np.concatenate(downs, -1)
        up = part.join(ups)
        for layer, name in enumerate(part.names):
            tensors |= {f"{name}.{DOWN}": down[layer].T, f"{name}.{UP}": up[layer].T}
        if isinstance(adapter, DoRA):
            magnitudes = part.join(
                [
                    part.norms(flat[f"{module}/kernel"]) * (1 + (flat[f"{paths[i]}/magnitude"] if i in paths else 0))
                    for i, module in enumerate(part.modules)
                ]
            )
            tensors |= {f"{name}.{MAGNITUDE}": magnitudes[layer] for layer, name in enumerate(part.names)}
        patterns[part.pattern] = sized
    least = min(patterns.values(), key=lambda sized: sized.rank)
    others = {pattern: sized for pattern, sized in patterns.items() if sized.rank != least.rank}
    options = {
        "peft_type": "LORA",
        "r": least.rank,
        "lora_alpha": least.alpha,
        "rank_pattern": {pattern: sized.rank for pattern, sized in others.items()},
        "alpha_pattern": {pattern: sized.alpha for pattern, sized in others.items()},
        "lora_dropout": adapter.dropout,
        "target_modules": "|".join(patterns),
        "bias": "none",
        "use_rslora": isinstance(adapter, RsLoRA),
        "use_dora": isinstance(adapter, DoRA),
    }
    return options, tensors


def adapted_matrices(matrices: Sequence[Part], flat: Mapping[str, Any], suffix: str) -> list[tuple[Part, list[int]]]:
    """The matrices that have parameters of this name, and the numbers of our kernels that have them.

    Raises:
      UserError: other modules have them, too.
    """
    left = {path.removesuffix(suffix) for path in flat if path.endswith(suffix)}
    chosen = [(part, [i for i, module in enumerate(part.modules) if module in left]) for part in matrices]
    left -= {module for part, _ in chosen for module in part.modules}
    if left:
        raise UserError("config.model.adapter.paths", "modules that are matrices in Hugging Face's files", min(left))
    return [(part, numbers) for part, numbers in chosen if numbers]
