"""Boxes, (top, left, bottom, right) as fractions of an image, and the matching of predictions to objects."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from txjax.types import Batch

LARGEST = 1e6  # of a cost; sums of more would lose the differences of others in float32


def area(boxes: Float[Array, "*batch 4"]) -> Float[Array, "*batch"]:
    """The area; 0 for an inverted box."""
    return jnp.prod(jnp.maximum(boxes[..., 2:] - boxes[..., :2], 0), -1)


def remove_padding(boxes: Float[Array, "B N 4"], batch: Batch) -> Float[Array, "B N 4"]:
    """Boxes as fractions of the image without padding, from fractions of the padded image."""
    if "extent" not in batch:
        return boxes
    size = jnp.asarray(batch["image"].shape[1:3], jnp.float32)[None]
    return boxes * jnp.tile(size / jnp.maximum(batch["extent"], 1), 2)[:, None]


def corners(boxes: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """(row and column of the centre, height, width) -> (top, left, bottom, right)."""
    centre = boxes[..., :2]
    half = boxes[..., 2:] / 2
    return jnp.concatenate([centre - half, centre + half], -1)


def centre_boxes(boxes: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """The inverse of `corners`."""
    return jnp.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)


def iou(a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, "*batch"]:
    """Intersection over union; 0 for two boxes without area."""
    return _ratio(*_intersection_and_union(a, b))


def generalised_iou(a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, "*batch"]:
    """IoU - (C - U) / C, with the area C of the smallest box around both (Rezatofighi et al. 2019), in [-1, 1]."""
    intersection, union = _intersection_and_union(a, b)
    around = area(jnp.concatenate([jnp.minimum(a[..., :2], b[..., :2]), jnp.maximum(a[..., 2:], b[..., 2:])], -1))
    return _ratio(intersection, union) - _ratio(around - union, around)


def assign(costs: Float[Array, "B N Q"], is_object: Bool[Array, "B N"]) -> Int[Array, "B N"]:
    """The queries of the objects, a different one for each, whose costs have the least sum (the Hungarian algorithm).

    Rows that are no objects get queries that are left over. No gradient flows through it.

    Args:
      costs: of each object and query; what is not finite is taken as the largest number, since the algorithm would not
        end. There are at least as many queries as objects.
      is_object: rows that are not padding.
    """
    assert costs.shape[2] >= costs.shape[1], "more objects than queries"
    # Rows of equal costs don't change which queries are best for the others.
    whole = jax.lax.stop_gradient(
        jnp.where(is_object[..., None], jnp.nan_to_num(costs, nan=LARGEST, posinf=LARGEST), 0.0)
    )

    def queries(costs: jax.Array) -> jax.Array:
        rows, columns = optax.assignment.hungarian_algorithm(costs)
        return jnp.zeros(len(costs), jnp.int32).at[rows].set(columns.astype(jnp.int32))

    return jax.vmap(queries)(whole)


def _intersection_and_union(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    inside = jnp.concatenate([jnp.maximum(a[..., :2], b[..., :2]), jnp.minimum(a[..., 2:], b[..., 2:])], -1)
    intersection = area(inside)
    return intersection, area(a) + area(b) - intersection


def _ratio(part: jax.Array, whole: jax.Array) -> jax.Array:
    """part / whole, and 0 with gradients of 0 where whole is 0."""
    some = whole > 0
    return jnp.where(some, part / jnp.where(some, whole, 1.0), 0.0)
