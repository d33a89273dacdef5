"""Rounds of clicks on the objects of an image, each where the prediction of the round before is wrong."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.data.point_labels import IGNORED, NO_POINT
from txjax.nn.parameters.remat import remat_policy
from txjax.nn.stack.loop import loop

Points = tuple[Float[Array, "B N P 2"], Int[Array, "B N P"]]  # as `SAM.predict` takes them, with their labels
Mask = Bool[Array, "B N H W"]


class Round(NamedTuple):
    """What the model answers to the prompts of one round.

    Attributes:
      logits: [B N M H W], of the masks that the prompts may mean: several in the first round, one later.
      ious: [B N M], predicted.
      mask: [B N H W], the logits of the mask of the highest predicted IoU.
    """

    logits: jax.Array
    ious: jax.Array
    mask: jax.Array


class Answers(NamedTuple):
    """All rounds.

    Attributes:
      target: the objects in the resolution of the predicted masks.
      first: the first round.
      later: the other rounds, on a leading axis. If None, there was one.
      points: all points.
    """

    target: Bool[Array, "B N h w"]
    first: Round
    later: Round | None
    points: Points

    def masks(self) -> list[jax.Array]:
        """The mask of each round."""
        return [self.first.mask] + ([] if self.later is None else list(self.later.mask))


def interact(
    model: Any,
    image: Float[Array, "B H W C"],
    masks: Int[Array, "B N H W"],
    first: Callable[[Mask], Points],
    click: Callable[[jax.Array, Mask, Mask], Points],
    clicked: Bool[Array, "#B R"],
    train: bool,
) -> Answers:
    """Prompts, answers, and clicks where these are wrong (Kirillov et al. 2023, A).

    The image is embedded once. After the first round the logits of the round before are a prompt too; no gradient flows
    through them. The rounds after the first are one compiled loop; `model.stack.remat` is of each round, too.

    Args:
      model: a bound `SAM`.
      masks: 1 inside each object.
      first: the prompts of the first round, from the objects.
      click: one more point for each object, from the number of the round, its prediction and the objects.
      clicked: whether each of R rounds after the first one has a new point.
    """
    embedded = model.embed_image(image, train)
    target = in_resolution(masks, *(model.finer * side for side in embedded.shape[1:3]))
    points, labels = first(target)
    batch, objects, prompt_count = labels.shape
    rounds = clicked.shape[1]
    points = jnp.concatenate([points, jnp.zeros((batch, objects, rounds, 2), points.dtype)], 2)
    labels = jnp.concatenate([labels, jnp.full((batch, objects, rounds), IGNORED, labels.dtype)], 2)
    begun = answer(
        model.predict(embedded, points[:, :, :prompt_count], labels[:, :, :prompt_count], None, train), slice(1, None)
    )
    if not rounds:
        return Answers(target, begun, None, (points, labels))

    def again(model: Any, state: tuple[Points, jax.Array], number: jax.Array) -> Any:
        (points, labels), mask = state
        place, label = click(number, mask > 0, target)
        label = jnp.where(jax.lax.dynamic_index_in_dim(clicked, number - 1, 1)[..., None], label, IGNORED)
        slot = prompt_count + number - 1
        points = jax.lax.dynamic_update_slice_in_dim(points, place, slot, 2)
        labels = jax.lax.dynamic_update_slice_in_dim(labels, label.astype(labels.dtype), slot, 2)
        answers = answer(model.predict(embedded, points, labels, mask, train), slice(0, 1))
        return ((points, labels), answers.mask), answers

    state = (points, labels), begun.mask
    (points, _), later = loop(model, again, state, jnp.arange(1, rounds + 1), remat_policy(model.stack.remat))  # type: ignore[assignment]
    return Answers(target, begun, later, points)


def answer(predicted: tuple[jax.Array, jax.Array], asked: slice) -> Round:
    """The round of these logits and IoUs, of which some masks are asked for."""
    logits, ious = (x[:, :, asked] for x in predicted)
    best = ious.argmax(2)[:, :, None, None, None]
    return Round(logits, ious, jax.lax.stop_gradient(jnp.take_along_axis(logits, best, 2)[:, :, 0]))


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
    uniform = jax.vmap(lambda key: jax.random.uniform(key, region.shape[1:]))(keys)
    return _click_at_highest(jnp.where(region, uniform, -1.0), target)


def central_click(region: Mask, target: Mask) -> Points:
    """The place of the region that is farthest from all outside it; no point where the region is empty."""
    flat = region.reshape(-1, *region.shape[2:])
    depth = jax.lax.map(squared_depth, flat).reshape(region.shape)
    points, labels = _click_at_highest(depth, target)
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


def _click_at_highest(scores: Float[Array, "B N H W"], target: Mask) -> Points:
    """The centre of the place of the highest score, labelled 1 on the object, 0 off it."""
    *lead, height, width = scores.shape
    best = scores.reshape(*lead, -1).argmax(-1)
    label = jnp.take_along_axis(target.reshape(*lead, -1), best[..., None], -1).astype(jnp.int32)
    place = jnp.stack([(best // width + 0.5) / height, (best % width + 0.5) / width], -1)
    return place[:, :, None].astype(jnp.float32), label
