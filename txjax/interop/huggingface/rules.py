"""Maps our arrays to the tensors of their files: a table of rules for each family, used in both directions."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from txjax.errors import UserError, near_misses
from txjax.interop.huggingface.weights import Tensor
from txjax.nn import Attention

log = logging.getLogger("txjax")
STATISTICS = "batch_stats"  # the collection of `nn.BatchNorm`
Shape = tuple[int, ...]
Flat = dict[str, np.ndarray]


class TensorLayout(NamedTuple):
    """Converts an array between two layouts.

    Attributes:
      theirs: converts ours to theirs.
      ours: converts theirs to ours, of the given shape.
    """

    theirs: Callable[[np.ndarray], np.ndarray]
    ours: Callable[[np.ndarray, Shape], np.ndarray] = lambda x, shape: x.reshape(shape)


def in_out(inputs: int = 1) -> TensorLayout:
    """A kernel [*in *out] whose first `inputs` dimensions are contracted: [in out] there."""
    return TensorLayout(lambda x: x.reshape(math.prod(x.shape[:inputs]), -1))


def out_in(inputs: int = 1) -> TensorLayout:
    """The same, but [out in] there, as in torch's Linear."""
    flat = in_out(inputs)
    return TensorLayout(lambda x: flat.theirs(x).T, lambda x, shape: x.T.reshape(shape))


def convolution(patch: int) -> TensorLayout:
    """The kernel [P*P*C D] of square patches: [D C P P] there."""
    return TensorLayout(
        lambda x: x.reshape(patch, patch, -1, x.shape[-1]).transpose(3, 2, 0, 1),
        lambda x, shape: x.transpose(2, 3, 1, 0).reshape(shape),
    )


def kernel(ones: int = 0) -> TensorLayout:
    """The kernel [*size in out] of a convolution: [out in *size] there, with so many sizes of 1 after these."""

    def theirs(x: np.ndarray) -> np.ndarray:
        moved = np.moveaxis(x, (-1, -2), (0, 1))
        return moved.reshape(*moved.shape, *(1,) * ones)

    return TensorLayout(theirs, lambda x, shape: np.moveaxis(x, (0, 1), (-1, -2)).reshape(shape))


SAME = TensorLayout(lambda x: x)
VECTOR = TensorLayout(lambda x: x.reshape(-1))
TOKEN = TensorLayout(lambda x: x.reshape(1, 1, -1))  # a vector with batch and length axes of 1
ROWS = TensorLayout(lambda x: x[None])  # a table with a batch axis of 1


class Rule(NamedTuple):
    """One tensor of theirs and our array in it, or our arrays, concatenated along its last dimension.

    Attributes:
      hf_name: their name; `{}` is the number of the layer, and our array is stacked over layers.
      param_paths: ours below `params`; one of another collection begins with the collection's name.
      form: the conversion of each of our arrays.
      whole: the conversion of the concatenated arrays.
      first: the number of the first layer of our array.
      step: from the number of one of its layers to the next one's.
    """

    hf_name: str
    param_paths: tuple[str, ...]
    form: TensorLayout = VECTOR
    whole: TensorLayout = SAME
    first: int = 0
    step: int = 1

    def name(self, layer: int | None) -> str:
        """Their name of a layer of our array; None if it has no layers."""
        return self.hf_name.format(layer if layer is None else layer * self.step + self.first)


def linear(theirs: str, ours: str, form: TensorLayout | None = None, bias: bool = True) -> list[Rule]:
    """The rules of a dense layer, [out in] there."""
    kernel = Rule(f"{theirs}.weight", (f"{ours}/kernel",), form or out_in())
    return [kernel, Rule(f"{theirs}.bias", (f"{ours}/bias",))] if bias else [kernel]


def norm(theirs: str, ours: str, bias: bool = True) -> list[Rule]:
    """The rules of a norm."""
    scale = Rule(f"{theirs}.weight", (f"{ours}/scale",))
    return [scale, Rule(f"{theirs}.bias", (f"{ours}/bias",))] if bias else [scale]


def batch_norm(theirs: str, ours: str) -> list[Rule]:
    """The rules of a batch norm and of its running statistics."""
    statistics = {"running_mean": "mean", "running_var": "var"}
    return norm(theirs, ours) + [
        Rule(f"{theirs}.{their_name}", (f"{STATISTICS}/{ours}/{name}",)) for their_name, name in statistics.items()
    ]


def frozen_batch_norm(theirs: str, ours: str) -> list[Rule]:
    """The rules of a batch norm whose scale and bias are constants like its statistics."""
    return [
        rule._replace(param_paths=(f"{STATISTICS}/{ours}/{rule.param_paths[0].rpartition('/')[2]}",))
        for rule in batch_norm(theirs, ours)
    ]


def projections(theirs: str, ours: str, names: Mapping[str, str], attention: Attention) -> list[Rule]:
    """The rules of attention's four projections.

    Args:
      names: theirs by ours (`nn.attention.PROJECTIONS`).
      attention: ours, whose projections have biases or not.
    """
    return [
        rule
        for name, their_name in names.items()
        for rule in linear(
            f"{theirs}.{their_name}",
            f"{ours}/{name}",
            out_in(2 if name == "out" else 1),
            attention.has_bias(name),
        )
    ]


def layer(theirs: str, ours: str, inner: str, norms: tuple[str, str], attention: Attention) -> list[Rule]:
    """The rules of a layer with BERT's names, which ViT shares.

    Args:
      inner: the module of queries, keys and values.
      norms: the names of the norms of attention and MLP.
      attention: ours, whose projections have biases or not.
    """
    names = {"query": f"{inner}.query", "key": f"{inner}.key", "value": f"{inner}.value", "out": "output.dense"}
    return [
        *norm(f"{theirs}.{norms[0]}", f"{ours}/norm_attention"),
        *projections(f"{theirs}.attention", f"{ours}/attention", names, attention),
        *norm(f"{theirs}.{norms[1]}", f"{ours}/norm_mlp"),
        *linear(f"{theirs}.intermediate.dense", f"{ours}/mlp/up"),
        *linear(f"{theirs}.output.dense", f"{ours}/mlp/down"),
    ]


class Names(NamedTuple):
    """Names in a family's files besides the tensors of its rules.

    Attributes:
      prefix: prefix of the base model's names inside a model with a head; files of the base model lack it.
      copies: names of tensors that are copies of another one.
      untied: entries of config.json of a model in which these are tensors of their own; empty if there is none.
      buffers: a pattern of names that are no weights.
      renamed: prefixes of other versions, and the prefixes that replace them.
      heads: modules, or tensors by their whole names, that classes of the family have and others don't, such as poolers
        and heads. A file may have them though its class doesn't: published checkpoints often keep what they were
        pretrained with.
    """

    prefix: str = ""
    copies: Mapping[str, str] = {}
    buffers: str = r"(?!)"
    renamed: Mapping[str, str] = {}
    heads: Collection[str] = ()
    untied: Mapping[str, Any] = {}


def tidy(tensors: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """The tensors under current names, with the prefix, without buffers."""
    old = {r"\.gamma$": ".weight", r"\.beta$": ".bias"} | {f"^{k}": v for k, v in names.renamed.items()}
    new = {}
    for name, tensor in tensors.items():
        for pattern, now in old.items():
            name = re.sub(pattern, now, name)
        new[name] = tensor
    if names.prefix and not any(name.startswith(names.prefix) for name in new):
        alone = {name for name in new if name in names.copies or module_of(name, names.heads)}
        new = {name if name in alone else names.prefix + name: tensor for name, tensor in new.items()}
    return {name: tensor for name, tensor in new.items() if not re.search(names.buffers, name)}


def unequal(tensors: Mapping[str, Tensor], copies: Mapping[str, str]) -> list[str]:
    """The names of tensors that should be copies and differ from their originals."""
    return [
        copy
        for copy, original in copies.items()
        if copy in tensors and original in tensors and not _equal(tensors[copy], tensors[original])
    ]


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and np.array_equal(one.read(), other.read())


def module_of(name: str, modules: Collection[str]) -> str | None:
    """The outermost of these modules that a tensor is in, if it is in any."""
    return min((module for module in modules if f"{name}.".startswith(f"{module}.")), key=len, default=None)


def gather(
    rules: Sequence[Rule], shapes: Mapping[str, Shape], tensors: Mapping[str, Tensor], heads: Collection[str] = ()
) -> Flat:
    """Our arrays by path, float32, from their tensors.

    Args:
      heads: modules of which no tensor needs a rule (`Names.heads`). They are left out, with one warning; of a
        module that rules read, all tensors need one.

    Raises:
      UserError: a tensor that is missing, has another shape, or has no rule.
    """
    known = {path for rule in rules for path in rule.param_paths}
    assert known == set(shapes), f"rules and model differ in {sorted(known ^ set(shapes))}"
    unread = set(tensors)
    most = sum(math.prod(tensor.shape) for tensor in tensors.values())
    for rule, layer in _rows(rules, shapes):  # before memory is taken for any
        name = rule.name(layer)
        inside = [shapes[path][layer is not None :] for path in rule.param_paths]
        if name not in tensors:
            raise UserError(name, "a tensor of that name", "none", near_misses(name, unread))
        numbers = sum(map(math.prod, inside))
        if numbers > most:
            raise UserError(name, f"{numbers:,} numbers, for the sizes in config.json", list(tensors[name].shape))
        if numbers != math.prod(tensors[name].shape):
            _joined_shape(rule, inside, name, tensors[name])
        unread.discard(name)
    flat = {path: np.empty(shape, np.float32) for path, shape in shapes.items()}
    for rule, layer in _rows(rules, shapes):
        name = rule.name(layer)
        assign(rule, [flat[path][... if layer is None else layer] for path in rule.param_paths], name, tensors[name])
    others = [module for module in heads if not any(rule.hf_name.startswith(f"{module}.") for rule in rules)]
    modules = {name: module_of(name, others) for name in sorted(unread)}
    if unknown := [name for name in modules if modules[name] is None]:
        raise UserError(unknown[0], "no such tensor in a model of this config.json", f"{len(unknown)} too many")
    if names := ", ".join(dict.fromkeys(filter(None, modules.values()))):
        log.warning("left out %d tensors that the class in config.json doesn't read: %s", len(modules), names)
    return flat


def _rows(rules: Sequence[Rule], shapes: Mapping[str, Shape]) -> Iterator[tuple[Rule, int | None]]:
    """The rules with the numbers of their layers; None for a rule without layers."""
    for rule in rules:
        layers = range(shapes[rule.param_paths[0]][0]) if "{}" in rule.hf_name else (None,)
        yield from ((rule, layer) for layer in layers)


def assign(rule: Rule, parts: Sequence[np.ndarray], name: str, tensor: Tensor) -> None:
    """Writes one of their tensors into our arrays, or their layer in it. Raises UserError if it has another shape."""
    joined, widths = _joined_shape(rule, [part.shape for part in parts], name, tensor)
    cuts = np.cumsum(widths)[:-1]
    for part, piece in zip(parts, np.split(rule.whole.ours(tensor.read(), joined), cuts, -1), strict=True):
        part[...] = rule.form.ours(piece, part.shape)


def _joined_shape(rule: Rule, parts: Sequence[Shape], name: str, tensor: Tensor) -> tuple[Shape, list[int]]:
    """The shape of our arrays one after the other in their form, and the last dimension of each of them there.

    Raises:
      UserError: the tensor does not have the shape that follows.
    """
    forms = [rule.form.theirs(np.broadcast_to(np.float32(0), part)).shape for part in parts]
    joined = (*forms[0][:-1], sum(form[-1] for form in forms))
    shape = rule.whole.theirs(np.broadcast_to(np.float32(0), joined)).shape
    if tensor.shape != shape:
        raise UserError(name, f"the shape {list(shape)}", list(tensor.shape))
    return joined, [form[-1] for form in forms]


def scatter(rules: Sequence[Rule], flat: Flat) -> dict[str, Tensor]:
    """Their tensors by name, converted lazily, of our arrays in `flat`."""
    tensors = {}
    known = [rule for rule in rules if all(path in flat for path in rule.param_paths)]
    depth = {rule: len(flat[rule.param_paths[0]]) if "{}" in rule.hf_name else 0 for rule in known}
    for layer in (None, *range(max(depth.values(), default=0))):
        for rule in known:
            if layer is None and not depth[rule]:
                tensors[rule.name(None)] = _join_parts(rule, [flat[path] for path in rule.param_paths])
            elif layer is not None and layer < depth[rule]:
                tensors[rule.name(layer)] = _join_parts(rule, [flat[path][layer] for path in rule.param_paths])
    return tensors


def _join_parts(rule: Rule, parts: list[np.ndarray]) -> Tensor:
    shapes = [rule.form.theirs(part).shape for part in parts]
    joined = (*shapes[0][:-1], sum(shape[-1] for shape in shapes))
    shape = rule.whole.theirs(np.broadcast_to(np.float32(0), joined)).shape
    return Tensor(shape, lambda: rule.whole.theirs(np.concatenate([rule.form.theirs(part) for part in parts], -1)))
