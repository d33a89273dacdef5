"""A lower bound on the bytes that a device sends in a step, from the sharding alone.

Collectives are rings: for an array of S bytes over n devices, an all-gather or a reduce-scatter sends S (n - 1) / n
bytes from each device, an all-reduce twice that.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from txjax import sharding
from txjax.experiment import Experiment
from txjax.models.model import Model
from txjax.nn import Experts, StackRecord, record_stacks
from txjax.sharding import Axes, is_axes
from txjax.train.state.counting import costliest_batch, forward_of
from txjax.train.state.state import Layout
from txjax.tree import walk
from txjax.types import flat_paths

_APART = ("layers", "experts")  # a device computes with its own shard only: never gathered


class _Share(NamedTuple):
    """One parameter's shard on one device.

    Attributes:
      size: bytes after the all-gather, in the dtype of the activations.
      along: number of shards over the mesh axes of the batch.
      copies: devices that have the same shard.
      trained: whether it has a gradient.
    """

    size: float
    along: int
    copies: int
    trained: bool


def least(experiment: Experiment, layout: Layout) -> dict[str, int]:
    """Bytes that one device sends in one step, by purpose.

    FSDP: a kernel sharded over the axes of the batch is all-gathered for the forward and again for the backward pass of
    every microbatch, in the dtype of the activations, and its gradient is reduce-scattered in that dtype.
    Data parallelism (and other axes with the same parameters): gradients are all-reduced once a step, in the dtype of
    the matrix products. Tensor parallelism (heads and hidden layers): every block all-reduces its branches' outputs
    and the gradients of their inputs. Context parallelism (length): keys and values go to all shards, and their
    gradients come back. Expert parallelism: every token goes to its experts and back, forward and backward.
    Pipeline parallelism: a stage sends each microbatch in every round, and its gradient.
    """
    parts = experiment.microbatches
    sizes = dict(layout.batch.mesh.shape)
    shares = list(_shares(experiment, layout))
    stacks = _stacks(experiment, layout)
    width = _width(experiment)
    return {
        "gather parameters": round(sum(2 * parts * s.size * (s.along - 1) / s.along for s in shares)),
        "add up gradients into shares": round(
            sum(parts * s.size * (s.along - 1) / s.along for s in shares if s.trained)
        ),
        "add up gradients of copies": round(
            sum(2 * s.size / s.along * (s.copies - 1) / s.copies for s in shares if s.trained)
        ),
        "add up branches": round(sum(_branches(experiment, sizes, stack, width) for stack in stacks)),
        "keys and values": round(sum(_keys(experiment, layout, sizes, stack, width) for stack in stacks)),
        "tokens to experts": round(sum(_experts(experiment, layout, sizes, stack, width) for stack in stacks)),
        "pass on to the next stage": round(sum(_stages(experiment, sizes, stack, width) for stack in stacks)),
    }


def between_slices(experiment: Experiment, layout: Layout, slices: int) -> int:
    """Bytes that one device must send to other slices in a step: its shard of the gradient all-reduce.

    The copies within a slice reduce-scatter first, so that every shard crosses once in each direction.
    """
    if slices == 1:
        return 0
    ways = 2 * (slices - 1) / slices
    return round(sum(ways * s.size / s.along / (s.copies / slices) for s in _shares(experiment, layout) if s.trained))


def _shares(experiment: Experiment, layout: Layout) -> Iterator[_Share]:
    mesh = experiment.mesh
    sizes = dict(layout.batch.mesh.shape)
    of_batch = set(mesh.table()["batch"])
    of_tokens = {*of_batch, *mesh.table()["length"]}
    trained = flat_paths(layout.abstract.params)
    names = flat_paths(layout.axes, is_leaf=is_axes)
    for path, x in (*trained.items(), *flat_paths(layout.abstract.frozen).items()):
        gathered: list[str | None] = []
        local: list[str | None] = []
        for name, entry in zip(names[path], _entries(x), strict=True):
            (local if name in _APART else gathered).extend(entry)
        along = math.prod(sizes[str(axis)] for axis in gathered if axis in of_batch)
        apart = math.prod(sizes[str(axis)] for axis in (*local, *gathered)) / along
        copies = math.prod(sizes[axis] for axis in of_tokens if axis not in (*local, *gathered))
        width = min(_width(experiment), x.dtype.itemsize)  # quantized kernels are gathered as they are stored
        yield _Share(math.prod(x.shape) / apart * width, along, copies, path in trained)


def _entries(x: Any) -> list[Axes]:
    """The mesh axes of each dimension of a sharded array."""
    spec = [*x.sharding.spec, *(None,) * (len(x.shape) - len(x.sharding.spec))]
    return [(entry,) if isinstance(entry, str) else tuple(entry or ()) for entry in spec]


def _width(experiment: Experiment) -> int:
    """Bytes of one element of the activations; the least of a model's parts that are models themselves."""
    models = [node for _, node in walk(experiment.model) if isinstance(node, Model)]
    return min((jnp.dtype(model.dtype).itemsize for model in models), default=4)


def _stacks(experiment: Experiment, layout: Layout) -> list[StackRecord]:
    """The stacks of layers that the forward pass of a batch meets."""
    params = layout.variables["params"]
    others = {k: x for k, x in layout.variables.items() if k != "params"}
    with record_stacks() as met, sharding.no_mesh():
        jax.eval_shape(forward_of(experiment), params, others, costliest_batch(experiment, layout.variables)[1])
    return met


def _local(experiment: Experiment, sizes: dict[str, int], stack: StackRecord, *axes: str) -> float:
    """Positions of a stack's streams in one step on one device, if the mesh shards these logical axes."""
    taken = {axis for name in axes for axis in experiment.mesh.table().get(name, ())}
    return sum(math.prod(shape[:-1]) for shape in stack.streams) / math.prod(sizes[axis] for axis in taken)


def _branches(experiment: Experiment, sizes: dict[str, int], stack: StackRecord, width: int) -> float:
    """Bytes sent by tensor parallelism: each branch's output forward, and its input's gradient backward."""
    ways = _ways(experiment, sizes, "mlp")
    stream = _local(experiment, sizes, stack, "batch", "length") * stack.width * width
    return 4 * stack.depth * stack.branches * stream * (ways - 1) / ways


def _keys(experiment: Experiment, layout: Layout, sizes: dict[str, int], stack: StackRecord, width: int) -> float:
    """Bytes sent by context parallelism: keys and values to all shards forward, and gradients back."""
    ways = _ways(experiment, sizes, "length")
    numbers = sum(
        math.prod(x.shape) / x.shape[names.index("embed")] / _ways(experiment, sizes, "kv_heads")
        for names, x in _named_parameters(layout, stack)
        if "kv_heads" in names and "embed" in names
    )
    numbers *= stack.depth / stack.groups
    return 2 * _local(experiment, sizes, stack, "batch") * numbers * width * (ways - 1) / ways


def _experts(experiment: Experiment, layout: Layout, sizes: dict[str, int], stack: StackRecord, width: int) -> float:
    """Bytes sent by expert parallelism: tokens to experts and back, and the same for gradients."""
    ways = _ways(experiment, sizes, "experts")
    experts = [m for _, m in walk(experiment.model) if isinstance(m, Experts)]
    if ways == 1 or not experts:
        return 0.0
    layers = (
        sum(x.shape[0] for names, x in _named_parameters(layout, stack) if "scores" in names)
        * stack.depth
        / stack.groups
    )
    token = experts[0].top * stack.width * width
    return 4 * layers * _local(experiment, sizes, stack, "batch", "length") * token * (ways - 1) / ways


def _stages(experiment: Experiment, sizes: dict[str, int], stack: StackRecord, width: int) -> float:
    """Bytes sent by an inner pipeline stage: its outputs, and the gradients of its inputs."""
    if _ways(experiment, sizes, "layers") == 1:
        return 0.0
    inside = dict(sizes) | dict.fromkeys(experiment.mesh.table()["layers"], 1)
    return 2 * stack.rounds * _local(experiment, inside, stack, "batch", "length") * stack.width * width


def _ways(experiment: Experiment, sizes: dict[str, int], axis: str) -> int:
    return math.prod(sizes[name] for name in experiment.mesh.table().get(axis, ()))


def _named_parameters(layout: Layout, stack: StackRecord) -> Iterator[tuple[Axes, Any]]:
    """Every parameter of a stack with its logical axes."""
    names = flat_paths(layout.axes, is_leaf=is_axes)
    for path, x in (*flat_paths(layout.abstract.params).items(), *flat_paths(layout.abstract.frozen).items()):
        if path.startswith(f"{stack.path}/"):
            yield names[path], x
