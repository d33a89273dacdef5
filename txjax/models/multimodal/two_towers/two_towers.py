"""A tower for images and one for texts, whose features are compared by their cosines."""

import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.nn import PairFeatures, parameter, unit_length
from txjax.types import Batch, config_field


class TwoTowers(Model, kw_only=True):
    """CLIP (Radford et al. 2021, figure 3) and SigLIP (Zhai et al. 2023, algorithm 1): a pair's features are similar.

    Parameters: the parameters of `vision` and `text`, `logit_scale` [], and `logit_bias` [] if `bias` is a number.

    Attributes:
      vision: reads images; its head gives one vector an image.
      text: reads texts; its head gives one vector a text, of the same size.
      scale: the factor of cosines at the start, of which the logarithm is learned.
      largest_scale: what the factor is kept at, or below, in training. If None, it is not bounded.
      bias: what is added to the scaled cosines at the start. If None, nothing is.
    """

    vision: Model = config_field()
    text: Model = config_field()
    scale: float = config_field(1 / 0.07, above=0)
    largest_scale: float | None = config_field(100.0, above=0)
    bias: float | None = None

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B H W C"] | None = None,
        tokens: Int[Array, "B L"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> PairFeatures:
        """The features of both, or of images or texts alone, which one tower reads.

        Args:
          segments: 0 is padding. If None, no token is padding.

        Raises:
          UserError: the towers' features differ in size, or are not one vector an example.
        """
        from_image = None if image is None else self.vision(image, train=train)
        from_text = None if tokens is None else self.text(tokens, segments, train=train)
        check_towers(from_image, from_text)
        log_scale = parameter(self, "logit_scale", nn.initializers.constant(math.log(self.scale)), (), ())
        if train and self.largest_scale is not None:
            log_scale = keep_at_most(log_scale, math.log(self.largest_scale))
        scale = jnp.exp(log_scale)
        bias = jnp.float32(0)
        if self.bias is not None:
            bias = parameter(self, "logit_bias", nn.initializers.constant(self.bias), (), ())
        rows = next(x.shape[:1] for x in (from_image, from_text) if x is not None)
        return PairFeatures(
            None if from_image is None else unit_length(from_image),
            None if from_text is None else unit_length(from_text),
            jnp.broadcast_to(scale, rows),
            jnp.broadcast_to(bias, rows),
        )

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        return {name: batch[name] for name in ("image", "tokens", "segments") if name in batch}


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def keep_at_most(x: Float[Array, ""], bound: float) -> Float[Array, ""]:
    """The smaller of both. Where that is the bound, x has a gradient if a step along it makes x smaller."""
    return jnp.minimum(x, bound)


keep_at_most.defvjp(
    lambda x, bound: (jnp.minimum(x, bound), x),
    lambda bound, x, gradient: (jnp.where((x < bound) | (gradient > 0), gradient, 0.0),),
)


def check_towers(from_image: Any, from_text: Any) -> None:
    """Raises UserError unless both are one vector an example, of one size. What is None is not there."""
    for field, features in (("config.model.vision.head", from_image), ("config.model.text.head", from_text)):
        if features is not None and getattr(features, "ndim", 0) != 2:
            expected = "a head that gives one vector an example, such as Projected"
            raise UserError(field, expected, type(features).__name__)
    if from_image is None or from_text is None:
        return
    if from_image.shape[1] != from_text.shape[1]:
        got = f"{from_image.shape[1]} and {from_text.shape[1]}"
        raise UserError("config.model.text.head", "features of the size of the image tower's", got)
