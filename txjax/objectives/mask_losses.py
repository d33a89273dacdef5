"""Losses of masks: logits of each pixel against what is inside an object."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def focal(
    logits: Float[Array, "*batch H W"], target: Bool[Array, "*batch H W"], gamma: float = 2.0, alpha: float = 0.25
) -> Float[Array, "*batch"]:
    """The mean of -a (1 - p)^gamma log p over the pixels, p the probability of what is true (Lin et al. 2017, eq. 5).

    Args:
      gamma: how much pixels that are right count less.
      alpha: a of pixels inside an object; outside it is 1 - alpha.
    """
    signed = jnp.where(target, logits, -logits).astype(jnp.float32)
    share = jnp.where(target, alpha, 1 - alpha)
    return (-share * jax.nn.sigmoid(-signed) ** gamma * jax.nn.log_sigmoid(signed)).mean((-2, -1))


def dice(logits: Float[Array, "*batch H W"], target: Bool[Array, "*batch H W"]) -> Float[Array, "*batch"]:
    """1 - (2 sum(p t) + 1) / (sum(p) + sum(t) + 1), p the probability to be inside (Milletari et al. 2016).

    The ones, as in Cheng et al. 2021 (MaskFormer), keep it defined for empty masks.
    """
    p = jax.nn.sigmoid(logits.astype(jnp.float32))
    t = target.astype(jnp.float32)
    both = (p * t).sum((-2, -1))
    all_of = p.sum((-2, -1)) + t.sum((-2, -1))
    return 1 - (2 * both + 1) / (all_of + 1)


def mask_iou(a: Bool[Array, "*batch H W"], b: Bool[Array, "*batch H W"]) -> Float[Array, "*batch"]:
    """Intersection over union, float32; 0 for two empty masks."""
    both, either = (x.sum((-2, -1)).astype(jnp.float32) for x in (a & b, a | b))
    return both / jnp.maximum(either, 1.0)
