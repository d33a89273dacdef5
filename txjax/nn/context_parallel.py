"""How queries meet the keys and values that other devices hold, where the mesh splits the length."""

import dataclasses
import functools
from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from txjax.nn.attention_dispatch import NAMED, Choice, dot_product_attention, record_choice
from txjax.nn.mask import Mask
from txjax.nn.ring import ring
from txjax.nn.shards import per_device
from txjax.sharding import constrain, num_shards
from txjax.types import UserError, config_field


@dataclasses.dataclass
class ContextParallel:
    """Each device has the queries of its part of the length; a variant brings it the keys. None changes the result."""

    def __call__(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None = None,
        dropout: Callable[[jax.Array], jax.Array] | None = None,
    ) -> Float[Array, "B L H K"]:
        """Attention, as `nn.dot_product_attention` has it."""
        raise NotImplementedError


@dataclasses.dataclass
class AllGatherKV(ContextParallel):
    """All keys and values on every device, for one layer at a time. Any kernel, bias and mask.

    Attributes:
      kernel: "reference" or "tokamax", for a comparison. If None, the backend's own. Where it can't take a call, the
        reference computes it (`docs/kernels.md`).
    """

    kernel: str | None = config_field(None, choices=NAMED)

    def __call__(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None = None,
        dropout: Callable[[jax.Array], jax.Array] | None = None,
    ) -> Float[Array, "B L H K"]:
        query = constrain(query, "batch", "length", "heads", None)
        key, value = (constrain(x, "batch", None, "kv_heads", None) for x in (key, value))
        return dot_product_attention(query, key, value, mask, bias, dropout, self.kernel)


@dataclasses.dataclass
class RingAttention(AllGatherKV):
    """Keys and values go round from device to device (Liu et al. 2023): none ever holds more than its part.

    By the reference, on every backend. Where there is no ring to go (one part, a length that isn't divided, decoding)
    they are gathered.
    """

    def __call__(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None = None,
        dropout: Callable[[jax.Array], jax.Array] | None = None,
    ) -> Float[Array, "B L H K"]:
        """Raises UserError for a bias, dropout, or a mask that is an array: only `AllGatherKV` has them whole."""
        count = num_shards("length")
        if count == 1 or query.shape[1] % count or key.shape[1] % count or mask.offset is not None:
            return super().__call__(query, key, value, mask, bias, dropout)
        for what, given in (("a bias of positions", bias), ("dropout", dropout), ("an array", mask.allowed)):
            if given is not None:
                raise UserError(
                    "config.model.attention.context_parallel",
                    f"AllGatherKV() for attention with {what}",
                    "RingAttention()",
                )
        choice = Choice("ring", f"keys and values go round {count} devices", query.shape, key.shape)
        with record_choice(choice, mask):
            return per_device(functools.partial(ring, mask.causal, mask.window), query, key, value, mask, "length")
