"""The least that a step's sharding makes a device send, from the layout alone.

Every array goes around a ring: of an array of S bytes over n devices, gathering it, or adding up its parts into n
shares, sends S (n - 1) / n bytes a device, adding it up on every device twice that.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp

from txjax.experiment import Experiment
from txjax.nn import Experts
from txjax.sharding import Axes, is_axes
from txjax.train.counting import tokens_per_batch
from txjax.train.state import Layout
from txjax.tree import walk
from txjax.types import flat_paths

_APART = ("layers", "experts")  # a device computes with its own alone: these are never gathered


class _Share(NamedTuple):
    """One parameter on one device.

    Attributes:
      size: bytes of what its products take, once it is gathered, in the dtype of the activations.
      along: in how many parts it is split along with the batch.
      copies: devices that hold the same part.
      trained: it has a gradient.
    """

    size: float
    along: int
    copies: int
    trained: bool


def least(experiment: Experiment, layout: Layout) -> dict[str, int]:
    """Bytes that one device sends in one step, by what for.

    A kernel that is split along with the batch (FSDP) is gathered for the forward and again for the backward pass of
    every microbatch, in the dtype of the activations, and its gradient is added up once into shares, in that dtype too.
    Copies of the model (data parallelism, and what else computes with the same parameters) add up their gradients once
    a step, in the dtype that the products give them. Where heads and hidden layers are split (tensor parallelism) every
    block adds up its two branches' outputs, and their inputs' gradients. Where the length is split, keys and values go
    to all parts, and their gradients come back. Every token goes to the experts that it chose and back, forward and
    backward. A stage of a pipeline hands on each part of the batch in every round, and its gradient.
    """
    parts, sizes = experiment.microbatches, dict(layout.batch.mesh.shape)
    shares = list(_shares(experiment, layout))
    width = _width(experiment)
    return {
        "gather parameters": round(sum(2 * parts * s.size * (s.along - 1) / s.along for s in shares)),
        "add up gradients into shares": round(
            sum(parts * s.size * (s.along - 1) / s.along for s in shares if s.trained)
        ),
        "add up gradients of copies": round(
            sum(2 * s.size / s.along * (s.copies - 1) / s.copies for s in shares if s.trained)
        ),
        "add up branches": round(_branches(experiment, sizes, width)),
        "keys and values": round(_keys(experiment, layout, sizes, width)),
        "tokens to experts": round(_experts(experiment, layout, sizes, width)),
        "pass on to the next stage": round(_stages(experiment, sizes, width)),
    }


def between_slices(experiment: Experiment, layout: Layout, slices: int) -> int:
    """Bytes that one device must send to other slices in a step: its part of the gradients' sums.

    The copies of one slice add up theirs first, each a part, so that every part crosses once, both ways.
    """
    if slices == 1:
        return 0
    ways = 2 * (slices - 1) / slices
    return round(sum(ways * s.size / s.along / (s.copies / slices) for s in _shares(experiment, layout) if s.trained))


def _shares(experiment: Experiment, layout: Layout) -> Iterator[_Share]:
    mesh, sizes = experiment.mesh, dict(layout.batch.mesh.shape)
    of_batch, of_places = set(mesh.table()["batch"]), {*mesh.table()["batch"], *mesh.table()["length"]}
    trained = flat_paths(layout.abstract.params)
    names = flat_paths(layout.axes, is_leaf=is_axes)
    for path, x in (*trained.items(), *flat_paths(layout.abstract.frozen).items()):
        gathered: list[str | None] = []
        held: list[str | None] = []
        for name, entry in zip(names[path], _entries(x), strict=True):
            (held if name in _APART else gathered).extend(entry)
        along = math.prod(sizes[str(axis)] for axis in gathered if axis in of_batch)
        apart = math.prod(sizes[str(axis)] for axis in (*held, *gathered)) / along
        copies = math.prod(sizes[axis] for axis in of_places if axis not in (*held, *gathered))
        yield _Share(math.prod(x.shape) / apart * _width(experiment), along, copies, path in trained)


def _entries(x: Any) -> list[Axes]:
    """The mesh axes of each dimension of a placed array."""
    spec = [*x.sharding.spec, *(None,) * (len(x.shape) - len(x.sharding.spec))]
    return [(entry,) if isinstance(entry, str) else tuple(entry or ()) for entry in spec]


def _width(experiment: Experiment) -> int:
    """Bytes of a number of the activations."""
    return jnp.dtype(getattr(experiment.model, "dtype", "float32")).itemsize


def _local(experiment: Experiment, sizes: dict[str, int], *axes: str) -> float:
    """Places of the residual stream, of one step, that one device has where the mesh splits these logical axes."""
    taken = {axis for name in axes for axis in experiment.mesh.table().get(name, ())}
    return tokens_per_batch(experiment) / math.prod(sizes[axis] for axis in taken)


def _branches(experiment: Experiment, sizes: dict[str, int], width: int) -> float:
    """What tensor parallelism sends: two sums of the stream forward, two backward, in every block."""
    model = experiment.model
    ways = _ways(experiment, sizes, "mlp")
    if ways == 1 or not hasattr(model, "depth"):
        return 0.0
    stream = _local(experiment, sizes, "batch", "length") * model.width * width
    return 4 * model.depth * 2 * stream * (ways - 1) / ways


def _keys(experiment: Experiment, layout: Layout, sizes: dict[str, int], width: int) -> float:
    """What context parallelism sends: each device's keys and values to all, forward, and gradients back."""
    ways = _ways(experiment, sizes, "length")
    numbers = sum(
        math.prod(x.shape) / x.shape[names.index("embed")] / _ways(experiment, sizes, "kv_heads")
        for names, x in _named(layout)
        if "kv_heads" in names and "embed" in names
    )
    return 2 * _local(experiment, sizes, "batch") * numbers * width * (ways - 1) / ways


def _experts(experiment: Experiment, layout: Layout, sizes: dict[str, int], width: int) -> float:
    """What expert parallelism sends: there and back, and the same for gradients."""
    ways, own = _ways(experiment, sizes, "experts"), [m for _, m in walk(experiment.model) if isinstance(m, Experts)]
    if ways == 1 or not own:
        return 0.0
    layers = sum(x.shape[0] for names, x in _named(layout) if "scores" in names)
    token = own[0].top * experiment.model.width * width
    return 4 * layers * _local(experiment, sizes, "batch", "length") * token * (ways - 1) / ways


def _stages(experiment: Experiment, sizes: dict[str, int], width: int) -> float:
    """What a stage between others of a pipeline sends: all that passes it, and the gradients of it."""
    if _ways(experiment, sizes, "layers") == 1:
        return 0.0
    inside = dict(sizes) | dict.fromkeys(experiment.mesh.table()["layers"], 1)
    return (
        2
        * experiment.model.stack.rounds
        * _local(experiment, inside, "batch", "length")
        * experiment.model.width
        * width
    )


def _ways(experiment: Experiment, sizes: dict[str, int], axis: str) -> int:
    return math.prod(sizes[name] for name in experiment.mesh.table().get(axis, ()))


def _named(layout: Layout) -> Iterator[tuple[Axes, Any]]:
    """Every parameter with its logical axes."""
    names = flat_paths(layout.axes, is_leaf=is_axes)
    for path, x in (*flat_paths(layout.abstract.params).items(), *flat_paths(layout.abstract.frozen).items()):
        yield names[path], x
