"""Rounds of clicks on the objects of an image, each where the prediction of the round before is wrong."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.data.point_labels import NO_POINT

Points = tuple[Float[Array, "B N P 2"], Int[Array, "B N P"]]  # as `SAM.predict` takes them, with their labels
Mask = Bool[Array, "B N H W"]


class Round(NamedTuple):
    """What the model answers to the prompts of one round.

    Attributes:
      logits: [B N M H W], of the masks that the prompts may mean: several in the first round, one later.
      ious: [B N M], predicted.
      mask: [B N H W], the logits of the mask of the highest predicted IoU.
      points: all points so far.
    """

    logits: jax.Array
    ious: jax.Array
    mask: jax.Array
    points: Points


def interact(
    model: Any,
    image: Float[Array, "B H W C"],
    masks: Int[Array, "B N H W"],
    first: Callable[[Mask], Points],
    click: Callable[[int, Mask, Mask], Points],
    clicks: int,
    refinements: int,
    train: bool,
) -> tuple[Bool[Array, "B N h w"], list[Round]]:
    """The objects in the resolution of the predicted masks, and the rounds (Kirillov et al. 2023, A).

    The image is embedded once. After the first round the logits of the round before are a prompt too; no gradient flows
    through them.

    Args:
      model: a bound `SAM`.
      masks: 1 inside each object.
      first: the prompts of the first round, from the objects.
      click: one more point for each object, from the number of the round, its prediction and the objects.
      clicks: rounds with a new point, the first one among them.
      refinements: rounds after these, without a new point.
    """
    embedded = model.embed_image(image, train)
    target = in_resolution(masks, *(model.finer * side for side in embedded.shape[1:3]))
    points, found = first(target), []
    mask: jax.Array | None = None
    for number in range(clicks + refinements):
        if mask is not None and number < clicks:
            new = click(number, mask > 0, target)
            points = jnp.concatenate([points[0], new[0]], 2), jnp.concatenate([points[1], new[1]], 2)
        logits, ious = model.predict(embedded, *points, mask, train)
        asked = slice(0, 1) if number else slice(1, None)
        logits, ious = logits[:, :, asked], ious[:, :, asked]
        best = ious.argmax(2)[:, :, None, None, None]
        mask = jax.lax.stop_gradient(jnp.take_along_axis(logits, best, 2)[:, :, 0])
        found.append(Round(logits, ious, mask, points))
    return target, found


def in_resolution(masks: Int[Array, "B N H W"], height: int, width: int) -> Bool[Array, "B N h w"]:
    """Which places of another resolution an object covers by at least half."""
    return jax.image.resize(masks.astype(jnp.float32), (*masks.shape[:2], height, width), "linear") >= 0.5


def random_click(keys: jax.Array, region: Mask, target: Mask) -> Points:
    """A random place of the region; where it is empty, of the object.

    Args:
      keys: one for each example, [B].
      target: the objects, which say whether the click is on one.
    """
    region = jnp.where(region.any((2, 3), keepdims=True), region, target)
    drawn = jax.vmap(lambda key: jax.random.uniform(key, region.shape[1:]))(keys)
    return _at(jnp.where(region, drawn, -1.0), target)


def central_click(region: Mask, target: Mask) -> Points:
    """The place of the region that is farthest from all outside it; no point where the region is empty."""
    flat = region.reshape(-1, *region.shape[2:])
    depth = jax.lax.map(squared_depth, flat).reshape(region.shape)
    points, labels = _at(depth, target)
    return points, jnp.where(region.any((2, 3))[:, :, None], labels, NO_POINT)


def squared_depth(region: Bool[Array, "H W"]) -> Float[Array, "H W"]:
    """The squared distance of each place to the nearest one outside the region, where the image ends, too."""
    outside = ~jnp.pad(region, 1)
    rows, columns = (jnp.arange(size, dtype=jnp.float32) for size in outside.shape)
    above = jax.lax.cummax(jnp.where(outside, rows[:, None], -jnp.inf), axis=0)
    below = jax.lax.cummin(jnp.where(outside, rows[:, None], jnp.inf), axis=0, reverse=True)
    vertical = jnp.minimum(rows[:, None] - above, below - rows[:, None])
    across = jnp.square(columns[:, None] - columns[None])
    nearest = (jnp.square(vertical)[:, :, None] + across[None]).min(1)
    return nearest[1:-1, 1:-1]


def _at(scores: Float[Array, "B N H W"], target: Mask) -> Points:
    """The centre of the place of the highest score, labelled 1 on the object, 0 off it."""
    *lead, height, width = scores.shape
    best = scores.reshape(*lead, -1).argmax(-1)
    label = jnp.take_along_axis(target.reshape(*lead, -1), best[..., None], -1).astype(jnp.int32)
    place = jnp.stack([(best // width + 0.5) / height, (best % width + 0.5) / width], -1)
    return place[:, :, None].astype(jnp.float32), label
