"""The matrices of a base model that Hugging Face's peft adapts, by the rules of the model's family."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from txjax.axes import Axes
from txjax.interop.huggingface.rules import Rule, Shape

BEFORE = "base_model.model."  # the names of a base model's modules
_SUFFIX = ".weight"


class Part(NamedTuple):
    """A matrix of the base model, and our kernels in it: one, or several with their outputs in a row.

    Attributes:
      names: of peft's module in each layer.
      pattern: a regular expression for these modules in the base model.
      modules: our modules.
      lead: (layers,) of stacked kernels, or ().
      inside: the shape of the inputs.
      outsides: the shape of the outputs of each kernel.
      inputs, outputs: the number, among all of ours, of each of peft's inputs and outputs.
    """

    names: tuple[str, ...]
    pattern: str
    modules: tuple[str, ...]
    lead: Shape
    inside: Shape
    outsides: tuple[Shape, ...]
    inputs: np.ndarray
    outputs: np.ndarray

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """What all outputs have there, [layers *k out], for each of our kernels: [*lead *k *outside]."""
        ours = np.take(x, np.argsort(self.outputs), -1)
        sizes = [math.prod(shape) for shape in self.outsides]
        pieces = zip(np.split(ours, np.cumsum(sizes)[:-1], -1), self.outsides, strict=True)
        return [np.ascontiguousarray(piece).reshape(*self.lead, *x.shape[1:-1], *shape) for piece, shape in pieces]

    def join(self, pieces: Sequence[np.ndarray]) -> np.ndarray:
        """The inverse of `split`."""
        between = [
            x.shape[len(self.lead) : x.ndim - len(shape)] for x, shape in zip(pieces, self.outsides, strict=True)
        ]
        flat = [x.reshape(len(self.names), *k, -1) for x, k in zip(pieces, between, strict=True)]
        return np.take(np.concatenate(flat, -1), self.outputs, -1)

    def inward(self, x: np.ndarray) -> np.ndarray:
        """What the inputs have there, [layers in *k], as ours: [*lead *inside *k]."""
        return np.take(x, np.argsort(self.inputs), 1).reshape(*self.lead, *self.inside, *x.shape[2:])

    def outward(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `inward`."""
        after = x.shape[len(self.lead) + len(self.inside) :]
        return np.take(x.reshape(len(self.names), len(self.inputs), *after), self.inputs, 1)

    def norms(self, kernel: np.ndarray) -> np.ndarray:
        """The norms of the columns of one of our kernels, [*lead *outside]."""
        first = len(self.lead)
        return np.sqrt(np.square(kernel).sum(tuple(range(first, first + len(self.inside)))))


def parts(rules: Sequence[Rule], axes: Mapping[str, Axes], shapes: Mapping[str, Shape]) -> Iterator[Part]:
    """The matrices among the rules of a model; those in other layouts are left out, such as convolutions'."""
    for rule in rules:
        if not rule.hf_name.endswith(_SUFFIX) or not all(path.endswith("/kernel") for path in rule.param_paths):
            continue
        kernel_axes = axes[rule.param_paths[0]]
        first = len(kernel_axes) - len(kernel_axes.uncopied_dims)
        last = len(kernel_axes) - len(kernel_axes.uncopied_dims) + len(kernel_axes.inside)
        lead = shapes[rule.param_paths[0]][:first]
        inside = shapes[rule.param_paths[0]][first:last]
        outsides = tuple(shapes[path][last:] for path in rule.param_paths)
        if len(lead) != ("{}" in rule.hf_name) or (orders := _orders(rule, inside, outsides)) is None:
            continue
        names = [rule.name(i if lead else None).removesuffix(_SUFFIX) for i in range(math.prod(lead))]
        modules = tuple(path.removesuffix("/kernel") for path in rule.param_paths)
        yield Part(tuple(BEFORE + x for x in names), _pattern(rule, lead), modules, lead, inside, outsides, *orders)


def _pattern(rule: Rule, lead: Shape) -> str:
    before, _, after = rule.hf_name.removesuffix(_SUFFIX).partition("{}")
    numbers = "|".join(str(layer * rule.step + rule.first) for layer in range(math.prod(lead)))
    return re.escape(before) + (f"({numbers})" if lead else "") + re.escape(after)


def _orders(rule: Rule, inside: Shape, outsides: Sequence[Shape]) -> tuple[np.ndarray, np.ndarray] | None:
    """`inputs` and `outputs` of a `Part`; None if their tensor is no matrix of ours in another order."""
    count = math.prod(inside)
    sizes = [math.prod(shape) for shape in outsides]
    numbers = np.arange(count * sum(sizes)).reshape(count, -1)
    pieces = zip(np.split(numbers, np.cumsum(sizes)[:-1], -1), outsides, strict=True)
    forms = [rule.form.theirs(piece.reshape(*inside, *shape)) for piece, shape in pieces]
    theirs = rule.whole.theirs(np.concatenate(forms, -1))
    if theirs.ndim != 2 or theirs.size != numbers.size:
        return None
    for matrix in (theirs, theirs.T):
        inputs = matrix[:, 0] // sum(sizes)
        outputs = matrix[0] % sum(sizes)
        if matrix.shape == numbers.shape and np.array_equal(matrix, numbers[inputs][:, outputs]):
            return inputs, outputs
    return None
