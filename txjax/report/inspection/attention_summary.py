"""The attention of one input: which sequences each attention reads, and what of its weights is kept."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax import backend
from txjax.nn import Grid
from txjax.nn.audio.subsampling import frame_mask
from txjax.report.inspection.attention_maps import Maps, sown_maps
from txjax.report.inspection.attention_measures import (
    grid_distance,
    grid_of,
    mean_distance,
    rollout,
    text_distance,
    whole_maps,
    window_distance,
)
from txjax.types import PyTree

TEXTS = ("tokens", "source_tokens")  # arguments of models that are texts; the segments of each
SEGMENTS = {"tokens": "segments", "source_tokens": "source_segments"}
WHOLE = 1024  # the most patches whose windows are joined to one map, for rollout


@dataclasses.dataclass(frozen=True)
class Sequence:
    """What an attention reads.

    Attributes:
      name: the argument of the model that it comes from: `tokens`, `source_tokens`, `image`, `features`; "" if not
        known.
      length: its tokens.
      grid: their order, of an image or of a spectrogram's patches. If None, they are a text or steps in time.
    """

    name: str
    length: int
    grid: Grid | None = None


@dataclasses.dataclass(frozen=True)
class Attended:
    """One attention of a model, in all layers.

    Attributes:
      queries, keys: the sequences.
      windows: whether it is attention in windows of a grid.
    """

    path: str
    layers: int
    heads: int
    queries: Sequence
    keys: Sequence
    windows: bool = False

    @property
    def between_texts(self) -> bool:
        """Whether queries and keys are tokens of texts."""
        return {self.queries.name, self.keys.name} <= set(TEXTS)

    @property
    def over_time(self) -> bool:
        """Whether keys are an encoder's tokens of audio, one after the other."""
        return self.keys.name == "features" and self.keys.grid is None


class Kept(NamedTuple):
    """What is kept of an attention's weights.

    Attributes:
      weights: of the chosen layers and heads: all pairs of tokens [layers B H L S], or of an image one row a map, the
        query's or the mean over all queries, [layers B H S].
      rollout: over all layers; None if they don't attend over one sequence.
      distance: the mean attention distance of all layers and heads, over the examples: in sides of a patch, or in
        tokens; None between two sequences.
    """

    weights: Float[Array, "..."]
    rollout: Float[Array, "B L L"] | None
    distance: Float[Array, "layers H"] | None


def attentions_of_call(model: Any, variables: PyTree, inputs: Mapping[str, Any]) -> dict[str, Attended]:
    """The attentions that a call of the model has, by path. Of their weights none is computed."""
    shapes = jax.eval_shape(lambda v, x: sown_maps(model, v, x), variables, dict(inputs))
    windows: dict[str, jax.Array] = {}
    if any(maps.windows is not None for maps in shapes.values()):
        numbers = backend.jit(lambda v, x: {path: maps.windows for path, maps in sown_maps(model, v, x).items()})
        windows = jax.device_get(numbers(variables, dict(inputs)))
    sizes = _InputSizes.of(model, inputs)
    return {path: sizes.attention(path, maps.weights.shape, windows.get(path)) for path, maps in shapes.items()}


@dataclasses.dataclass(frozen=True)
class _InputSizes:
    """How many tokens, and in which order, the inputs of a call have.

    Attributes:
      lengths: tokens of each text, and of features whose tokens are steps in time, by argument.
      spectrogram: the order of the patches of features.
      image: height and width.
    """

    lengths: Mapping[str, int]
    spectrogram: Grid | None
    image: tuple[int, int] | None

    @classmethod
    def of(cls, model: Any, inputs: Mapping[str, Any]) -> "_InputSizes":
        lengths = {name: inputs[name].shape[1] for name in TEXTS if name in inputs}
        grid = _spectrogram_grid(model, inputs)
        if "features" in inputs and grid is None:
            lengths["features"] = time_steps(model, inputs["features"].shape[1])
        return cls(lengths, grid, inputs["image"].shape[1:3] if "image" in inputs else None)

    def attention(self, path: str, shape: tuple[int, ...], windows: Any) -> Attended:
        """The attention of a path, by the shape of its weights."""
        layers, _, heads, length, source = shape
        if windows is not None:
            assert self.image is not None
            grid = _grid_of_windows(windows, *self.image)
            both = Sequence("image", grid.rows * grid.columns, grid)
            return Attended(path, layers, heads, both, both, windows=True)
        first, *_, last = path.split("/")
        sources = [name for name in ("source_tokens", "features") if name in self.lengths]
        pair = bool(sources) and "tokens" in self.lengths
        queries = self._sequence(length, sources if pair and first == "encoder" else ["tokens"])
        keys = self._sequence(source, sources if pair and last in ("cross", "decoder") else [queries.name])
        return Attended(path, layers, heads, queries, keys)

    def _sequence(self, length: int, likely: list[str]) -> Sequence:
        """The input that has so many tokens; of several the likely one."""
        for name in dict.fromkeys((*likely, *self.lengths)):
            if self.lengths.get(name) == length:
                return Sequence(name, length)
        if self.spectrogram is not None and (prefix := length - self.spectrogram.rows * self.spectrogram.columns) >= 0:
            return Sequence("features", length, self.spectrogram._replace(prefix=prefix))
        grid = None if self.image is None else grid_of(length, *self.image)
        return Sequence("image" if grid else "", length, grid)


def time_steps(model: Any, frames: Int[Array, "..."] | int) -> Any:
    """How many tokens an encoder of audio, the model's or its own, makes of so many frames; as many without one."""
    for encoder in (model, getattr(model, "encoder", None)):
        if callable(length := getattr(encoder, "output_length", None)):
            return length(frames)
    return frames


def _spectrogram_grid(model: Any, inputs: Mapping[str, Any]) -> Grid | None:
    """The order of the patches of features, for a model that says it."""
    grid = getattr(model, "grid", None)
    if "features" not in inputs or not callable(grid):
        return None
    _, frames, bins = inputs["features"].shape
    return grid(bins, frames)  # type: ignore[no-any-return]


def _grid_of_windows(windows: Int[np.ndarray, "layers W S"], height: int, width: int) -> Grid:
    """The grid whose windows they are: the second row of a window is one row of the grid further."""
    tokens = int(windows.max()) + 1
    side = math.isqrt(windows.shape[2])
    if side == 1:
        return grid_of(tokens, height, width, most=0) or Grid(1, tokens)
    columns = int(windows[0, 0, side] - windows[0, 0, 0])
    return Grid(tokens // columns, columns)


def summary(
    model: Any,
    variables: PyTree,
    inputs: dict[str, Any],
    chosen: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
    known: Mapping[str, Attended],
    query: tuple[float, float] | None = None,
) -> dict[str, Kept]:
    """What is kept of each attention's weights, for `jax.jit`: maps that were not chosen stay on the device.

    Args:
      chosen: layers and heads by path.
      known: as of `attentions_of_call`.
      query: the patch whose map is kept of images has this place, as fractions of the height and the width. If None,
        it is the class token's map, or without one the mean over all patches.
    """
    sown = sown_maps(model, variables, inputs)
    reads = [attended.queries.name for attended in known.values()]  # rollout: one attention, to the sequence itself
    kept = {}
    for path, (layers, heads) in chosen.items():
        maps = sown[path]
        attention = known[path]
        part = maps.weights[jnp.asarray(layers, jnp.int32)][:, :, jnp.asarray(heads, jnp.int32)]
        if attention.keys.grid is not None:
            inside = None if maps.windows is None else maps.windows[jnp.asarray(layers, jnp.int32)]
            part = _one_map(attention, part, inside, None if query is None else _patch(attention.queries.grid, query))
        through = _rollout(attention, maps) if reads.count(attention.queries.name) == 1 else None
        kept[path] = Kept(part, through, _distance(attention, maps, _segments(model, inputs, attention)))
    return kept


def _patch(grid: Grid | None, place: tuple[float, float]) -> int | None:
    """The number of the patch at a place; None if the queries are no patches."""
    if grid is None:
        return None
    row, column = (min(int(part * size), size - 1) for part, size in zip(place, grid[:2], strict=True))
    return row * grid.columns + column


def _one_map(
    attention: Attended, weights: jax.Array, windows: Int[Array, "layers W S"] | None, query: int | None
) -> Float[Array, "layers B H N"]:
    """The map of one query, or the mean over the queries."""
    prefix = 0 if attention.queries.grid is None else attention.queries.grid.prefix
    if windows is None:
        if query is not None:
            return weights[:, :, :, prefix + query]
        return weights[:, :, :, 0] if prefix else weights.mean(3)
    layers, count, _ = windows.shape
    parts = weights.reshape(layers, -1, count, *weights.shape[2:]).transpose(0, 1, 3, 2, 4, 5)  # layers B H W S S
    if query is None:
        queries = (windows >= 0)[:, None, None, :, :, None] / attention.queries.length
    else:
        queries = (windows == query)[:, None, None, :, :, None].astype(parts.dtype)
    rows = (parts * queries).sum(4)
    inside = jnp.where(windows < 0, attention.keys.length, windows)

    def layer(rows: jax.Array, inside: jax.Array) -> jax.Array:
        whole = jnp.zeros((*rows.shape[:2], attention.keys.length + 1), rows.dtype)
        return whole.at[:, :, inside].add(rows)[:, :, :-1]

    return jax.vmap(layer)(rows, inside)


def _rollout(attention: Attended, maps: Maps) -> jax.Array | None:
    if attention.queries != attention.keys:
        return None
    if maps.windows is None:
        return rollout(maps.weights)
    if attention.queries.length > WHOLE:
        return None
    mean = maps.weights.mean(2, keepdims=True)
    return rollout(whole_maps(mean, maps.windows, attention.queries.length))


def _segments(model: Any, inputs: Mapping[str, Any], attention: Attended) -> jax.Array | None:
    """0 for queries that are padding of a text or of audio. If None, none is."""
    if attention.over_time and "features_length" in inputs:
        return frame_mask(time_steps(model, inputs["features_length"]), attention.queries.length).astype(jnp.int32)
    return inputs.get(SEGMENTS.get(attention.queries.name, ""))


def _distance(attention: Attended, maps: Maps, segments: Int[Array, "B L"] | None) -> jax.Array | None:
    weights = maps.weights
    if maps.windows is not None:
        assert attention.queries.grid is not None
        layers, count, _ = maps.windows.shape
        parts = weights.reshape(layers, -1, count, *weights.shape[2:])
        distance, counts = (x[:, None] for x in window_distance(maps.windows, attention.queries.grid))
        return mean_distance(parts, distance, counts).mean((1, 2))
    if attention.queries.grid is not None and attention.keys.grid is not None:
        away, patches = grid_distance(attention.queries.grid, attention.keys.grid)
        return mean_distance(weights, away, patches).mean(1)
    if attention.queries != attention.keys or not attention.queries.name:
        return None
    away, pairs = text_distance(segments, attention.queries.length)
    return mean_distance(weights, away, pairs).mean(1)
