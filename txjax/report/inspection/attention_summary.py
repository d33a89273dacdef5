"""What is kept of the weights of each attention, for one input."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn import Grid
from txjax.nn.audio.subsampling import frame_mask
from txjax.report.inspection.attention_maps import Maps, sown_maps
from txjax.report.inspection.attention_measures import (
    grid_distance,
    mean_distance,
    rollout,
    text_distance,
    whole_maps,
    window_distance,
)
from txjax.report.inspection.attention_sequences import SEGMENTS, Attended, time_steps
from txjax.types import PyTree

WHOLE = 1024  # the most patches whose windows are joined to one map, for rollout


class Kept(NamedTuple):
    """What is kept of an attention's weights.

    Attributes:
      weights: of the chosen layers and heads: all pairs of tokens [layers B H L S]; where the keys are patches and the
        queries have no labels, one row a map, the query's or the mean over all queries, [layers B H S].
      rollout: over all layers; None if they don't attend over one sequence.
      distance: the mean attention distance of all layers and heads, over the examples: in sides of a patch, or in
        tokens; None between two sequences.
    """

    weights: Float[Array, "..."]
    rollout: Float[Array, "B L L"] | None
    distance: Float[Array, "layers H"] | None


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
        attention = known[path]
        maps = sown[attention.path]
        maps = maps._replace(weights=_between(attention, maps))
        part = maps.weights[jnp.asarray(layers, jnp.int32)][:, :, jnp.asarray(heads, jnp.int32)]
        if attention.keys.grid is not None and not attention.queries.is_labelled:
            inside = None if maps.windows is None else maps.windows[jnp.asarray(layers, jnp.int32)]
            part = _one_map(attention, part, inside, None if query is None else _patch(attention.queries.grid, query))
        through = _rollout(attention, sown[attention.path]) if reads.count(attention.queries.name) == 1 else None
        kept[path] = Kept(part, through, _distance(attention, maps, _segments(model, inputs, attention)))
    return kept


def _between(attention: Attended, maps: Maps) -> Float[Array, "layers BW H L S"]:
    """The weights between the tokens of the two sequences."""
    if attention.windows:
        return maps.weights
    rows, columns = (slice(x.first, x.first + x.length) for x in (attention.queries, attention.keys))
    return maps.weights[..., rows, columns]


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
        here = slice(attention.queries.first, attention.queries.first + attention.queries.length)
        return rollout(maps.weights)[:, here, here]
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
    is_ordered = attention.queries.is_text or attention.over_time
    if attention.queries != attention.keys or not is_ordered:
        return None
    away, pairs = text_distance(segments, attention.queries.length)
    return mean_distance(weights, away, pairs).mean(1)
