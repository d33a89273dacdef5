"""Beam search that divides by lengths alone and can wait for better texts, as transformers' `generate` does."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.decoding.beam import Beam, Hypotheses
from txjax.types import config_field


@dataclasses.dataclass
class NormalizedBeam(Beam):
    """Beam search whose score is log-probability / n^alpha: at alpha 1 the mean of a token.

    It finds the texts and scores of transformers' `generate(num_beams=size, length_penalty=alpha)`.

    Attributes:
      length_penalty: alpha; above 0 longer texts have better scores than without, below 0 worse ones.
      stop: when a row with `size` finished texts is over: "full" at once (transformers' early_stopping=True);
        "estimate" when its most likely live text, at the length that it has, is not better than the worst of them
        (False); "bound" when it can't become better at any length up to the whole (if alpha is above 0; "never").
    """

    length_penalty: float = config_field(1.0)
    stop: str = config_field("estimate", choices=("full", "estimate", "bound"))

    def penalty(self, count: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(count, jnp.float32) ** self.length_penalty

    def find_ended(self, live: Hypotheses, done: Hypotheses, count: Int[Array, ""], length: int) -> Bool[Array, "B"]:
        full = done.exist.all(1)
        if self.stop == "full":
            return full
        if self.stop == "bound":
            count = jnp.where(self.length_penalty > 0, length, count)
        return full & (live.scores.max(1) / self.penalty(count) <= done.scores.min(1))
