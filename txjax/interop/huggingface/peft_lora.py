"""LoRA, rsLoRA and DoRA in the names and layouts of Hugging Face's peft, by the rules of the base model's family."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from txjax.axes import Axes
from txjax.interop.huggingface.rules import Flat, Rule
from txjax.interop.huggingface.weights import Tensor
from txjax.nn.adapters import DoRA, LoRA, RsLoRA
from txjax.types import UserError

BEFORE = "base_model.model."  # the names of a base model's modules
DOWN, UP, MAGNITUDE = "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"

# Options that change the function and that txjax hasn't, with the values that change nothing.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": (None, "none"),
    "alpha_pattern": (None, {}),
    "rank_pattern": (None, {}),
    "layers_to_transform": (None, []),
    "layer_replication": (None, []),
    "lora_bias": (None, False),
    "target_parameters": (None, []),
}


class Kernel(NamedTuple):
    """A kernel that can be adapted.

    Attributes:
      layers: it is [layers *in *out]; None if it is not stacked.
      inside, outside: the shapes of its inputs and outputs.
    """

    layers: int | None
    inside: tuple[int, ...]
    outside: tuple[int, ...]

    @property
    def lead(self) -> tuple[int, ...]:
        return () if self.layers is None else (self.layers,)

    def rows(self, x: np.ndarray, outputs: bool) -> np.ndarray:
        """`up` [layers r *out] as lora_B [layers out r] if `outputs`; else `down` as lora_A [... r in]."""
        shape = (-1, math.prod(self.outside)) if outputs else (math.prod(self.inside), -1)
        return x.reshape(self.layers or 1, *shape).swapaxes(1, 2)

    def ours(self, x: np.ndarray, outputs: bool) -> np.ndarray:
        """The inverse of `rows`."""
        shape = (-1, *self.outside) if outputs else (*self.inside, -1)
        return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(*self.lead, *shape)

    def magnitudes(self, kernel: np.ndarray) -> np.ndarray:
        """The norms of its columns, [layers out]."""
        return np.sqrt(np.square(kernel.reshape(self.layers or 1, math.prod(self.inside), -1)).sum(1))


class Part(NamedTuple):
    """A matrix of the base model that peft adapts, and our kernels in it: one, or several with their outputs in a row.

    Attributes:
      names: of peft's module in each layer.
      modules: our modules.
      kernels: theirs.
    """

    names: tuple[str, ...]
    modules: tuple[str, ...]
    kernels: tuple[Kernel, ...]

    @property
    def cuts(self) -> np.ndarray:
        """Where the outputs of the second and later kernels begin."""
        return np.cumsum([math.prod(kernel.outside) for kernel in self.kernels])[:-1]


def parts(rules: Sequence[Rule], axes: Mapping[str, Axes], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Part]:
    """The matrices among the rules of a model; those in other layouts are left out, such as convolutions'."""
    for rule in rules:
        if not rule.theirs.endswith(".weight") or not all(path.endswith("/kernel") for path in rule.ours):
            continue
        kernels = []
        for path in rule.ours:
            own, shape = axes[path], shapes[path]
            count = len(own.inside)
            stacked = len(own) - len(own.own)
            inner = shape[stacked:]
            kernels.append(Kernel(shape[0] if stacked else None, inner[:count], inner[count:]))
        layers = kernels[0].layers
        if (layers is not None) == ("{}" in rule.theirs) and all(_is_matrix(rule, kernel) for kernel in kernels):
            names = [rule.name(i if layers else None) for i in range(layers or 1)]
            modules = tuple(path.removesuffix("/kernel") for path in rule.ours)
            yield Part(tuple(BEFORE + name.removesuffix(".weight") for name in names), modules, tuple(kernels))


def _is_matrix(rule: Rule, kernel: Kernel) -> bool:
    """Whether their tensor is the kernel as a matrix, [in out] or [out in], with its columns in our order."""
    shape = (*kernel.inside, *kernel.outside)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    flat, theirs = numbers.reshape(math.prod(kernel.inside), -1), rule.whole.theirs(rule.form.theirs(numbers))
    return np.array_equal(theirs, flat) or np.array_equal(theirs, flat.T)


def read(
    where: str, config: Mapping[str, Any], found: Sequence[Part], tensors: dict[str, Tensor], base: Flat
) -> tuple[LoRA, Flat]:
    """The adapter and its parameters by path. Takes what it reads out of `tensors`.

    Raises:
      UserError: options or tensors that are not of one adapter of ours; `where` is the folder.
    """
    for name, plain in _PLAIN.items():
        if config.get(name) not in plain:
            raise UserError(f"{where}: {name}", " or ".join(map(repr, plain)), config[name])
    kind = DoRA if config.get("use_dora") else RsLoRA if config.get("use_rslora") else LoRA
    if config.get("use_dora") and config.get("use_rslora"):
        raise UserError(f"{where}: use_rslora", "False with use_dora", True)
    flat, modules, rank = Flat(), [], int(config["r"])
    for part in found:
        there = [name for name in part.names if f"{name}.{DOWN}" in tensors]
        if not there:
            continue
        if len(there) < len(part.names):
            missing = next(name for name in part.names if name not in there)
            raise UserError(where, "an adapter of all layers alike", f"none of {missing}")

        def stacked(name: str, part: Part = part) -> np.ndarray:
            return np.stack([tensors.pop(f"{module}.{name}").read() for module in part.names])

        down, up = stacked(DOWN), np.split(stacked(UP), part.cuts, axis=1)
        sizes = stacked(MAGNITUDE).reshape(len(part.names), -1) if kind is DoRA else np.zeros((len(part.names), 0))
        if down.shape[1:] != (rank, math.prod(part.kernels[0].inside)):
            got = f"{list(down.shape[1:])} in {part.names[0]}"
            raise UserError(where, f"{DOWN} of [{rank} {math.prod(part.kernels[0].inside)}], for this model", got)
        for module, kernel, piece, size in zip(
            part.modules, part.kernels, up, np.split(sizes, part.cuts, axis=1), strict=True
        ):
            own = f"{module}/{kind.name}"
            flat |= {f"{own}/down/kernel": kernel.ours(down, False), f"{own}/up/kernel": kernel.ours(piece, True)}
            if kind is DoRA:
                relative = size / kernel.magnitudes(base[f"{module}/kernel"]) - 1
                flat[f"{own}/magnitude"] = relative.reshape(*kernel.lead, *kernel.outside)
            modules.append(module)
    if not modules:
        raise UserError(where, "an adapter of modules of this model", next(iter(tensors), "no tensor"))
    fields = {"alpha": float(config["lora_alpha"]), "dropout": float(config.get("lora_dropout") or 0.0)}
    return kind(paths="|".join(map(re.escape, modules)), rank=rank, **fields), flat


def written(adapter: LoRA, found: Sequence[Part], flat: Flat) -> tuple[dict[str, Any], Flat]:
    """The options and the tensors of an adapter.

    A matrix of which several of our kernels are adapted has one `lora_A`: if theirs are not the same, all of them one
    below the other, and `lora_B` is zero but in the blocks of each.

    Raises:
      UserError: adapted modules that are no matrices there, or whose ranks there differ.
    """
    own = f"/{adapter.name}/down/kernel"
    adapted = {path.removesuffix(own) for path in flat if path.endswith(own)}
    tensors, patterns, times = Flat(), [], set()
    for part in found:
        chosen = [i for i, module in enumerate(part.modules) if module in adapted]
        if not chosen:
            continue
        adapted -= set(part.modules)

        def rows(i: int, half: str, part: Part = part) -> np.ndarray:
            x = flat[f"{part.modules[i]}/{adapter.name}/{half}/kernel"]
            return part.kernels[i].rows(x, half == "up")

        downs, ups = [rows(i, "down") for i in chosen], {i: rows(i, "up") for i in chosen}
        shared = len(chosen) == len(part.modules) and all(np.array_equal(downs[0], down) for down in downs)
        count = 1 if shared else len(chosen)
        blocks = []
        for i, kernel in enumerate(part.kernels):
            block = np.zeros((len(part.names), math.prod(kernel.outside), count * adapter.rank), np.float32)
            if i in ups:
                first = 0 if shared else chosen.index(i) * adapter.rank
                block[..., first : first + adapter.rank] = ups[i]
            blocks.append(block)
        down, up = downs[0] if shared else np.concatenate(downs, 1), np.concatenate(blocks, 1)
        for layer, name in enumerate(part.names):
            tensors |= {f"{name}.{DOWN}": down[layer], f"{name}.{UP}": up[layer]}
            if isinstance(adapter, DoRA):
                tensors[f"{name}.{MAGNITUDE}"] = _magnitudes(adapter, part, flat, layer)
        times.add(count)
        name = re.escape(part.names[0].removeprefix(BEFORE))
        patterns.append(name if len(part.names) == 1 else re.sub(r"(?<=\\\.)\d+(?=\\\.)", r"\\d+", name, count=1))
    if adapted:
        raise UserError("config.model.adapter.paths", "modules that are matrices in Hugging Face's files", min(adapted))
    if len(times) > 1 or (times != {1} and type(adapter) is not LoRA):
        hint = "all parts of a matrix, or a LoRA of parts of such matrices alone"
        raise UserError(
            "config.model.adapter.paths", "modules of one rank in Hugging Face's files", adapter.paths, hint=hint
        )
    (count,) = times
    options = {
        "peft_type": "LORA",
        "r": count * adapter.rank,
        "lora_alpha": count * adapter.alpha,
        "lora_dropout": adapter.dropout,
        "target_modules": "|".join(patterns),
        "bias": "none",
        "use_rslora": isinstance(adapter, RsLoRA),
        "use_dora": isinstance(adapter, DoRA),
    }
    return options, tensors


def _magnitudes(adapter: DoRA, part: Part, flat: Flat, layer: int) -> np.ndarray:
    """m = (1 + magnitude) |W| of all columns."""
    found = []
    for module, kernel in zip(part.modules, part.kernels, strict=True):
        relative = flat[f"{module}/{adapter.name}/magnitude"].reshape(len(part.names), -1)
        found.append((1 + relative[layer]) * kernel.magnitudes(flat[f"{module}/kernel"])[layer])
    return np.concatenate(found)
