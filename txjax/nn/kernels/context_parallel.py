"""Context parallelism: attention to keys and values of other devices, if the mesh shards the length."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.kernels.attention_dispatch import NAMED, dot_product_attention
from txjax.nn.kernels.kernel_choice import Choice, record_choice
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.ring import ring
from txjax.nn.kernels.shards import per_device
from txjax.sharding import num_shards
from txjax.types import config_field

Attend = Callable[..., jax.Array]  # with the arguments of `nn.dot_product_attention`


@dataclasses.dataclass
class ContextParallel:
    """Base of ways to bring keys to each device's shard of the queries. No variant changes the result."""

    def attend(self, query: jax.Array, key: jax.Array, mask: Mask, bias: Any = None, dropout: Any = None) -> Attend:
        """What computes attention with these arguments, which are those of `nn.dot_product_attention`."""
        raise NotImplementedError


@dataclasses.dataclass
class AllGatherKV(ContextParallel):
    """All-gathers keys and values, one layer at a time. Any kernel, bias and mask.

    Attributes:
      kernel: "packed" for rows of several documents on NVIDIA GPUs; "reference" or "tokamax", for a comparison. If
        None, the backend's own. If it doesn't support a call, the reference computes it (`docs/kernels.md`).
    """

    kernel: str | None = config_field(None, choices=NAMED)

    def attend(self, query: jax.Array, key: jax.Array, mask: Mask, bias: Any = None, dropout: Any = None) -> Attend:
        return functools.partial(dot_product_attention, kernel=self.kernel)


@dataclasses.dataclass
class RingAttention(AllGatherKV):
    """Passes keys and values around a ring of devices (Liu et al. 2023): none holds more than its shard.

    Computed by the reference on every backend. Without a ring (one shard, a length that the shards don't divide,
    decoding) they are all-gathered.
    """

    def attend(self, query: jax.Array, key: jax.Array, mask: Mask, bias: Any = None, dropout: Any = None) -> Attend:
        """Raises UserError for a bias, dropout, or a mask that is an array: only `AllGatherKV` supports them."""
        count = num_shards("length")
        if count == 1 or query.shape[1] % count or key.shape[1] % count or mask.offset is not None:
            return super().attend(query, key, mask, bias, dropout)
        prompt = mask.segments if mask.prefix else None
        reasons = {"a bias of positions": bias, "dropout": dropout, "an array": mask.allowed, "a prompt": prompt}
        for what, value in reasons.items():
            if value is not None:
                raise UserError(
                    "config.model.mixer.context_parallel",
                    f"AllGatherKV() for attention with {what}",
                    "RingAttention()",
                )
        return ring_attention


def ring_attention(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask,
    bias: None = None,
    dropout: None = None,
) -> Float[Array, "B L H K"]:
    """Attention as in `nn.dot_product_attention`, in a ring of the devices that shard the length."""
    why = f"keys and values go round {num_shards('length')} devices"
    with record_choice(Choice("ring", why, query.shape, key.shape), mask):
        return per_device(functools.partial(ring, mask.causal, mask.window), query, key, value, mask, "length")
