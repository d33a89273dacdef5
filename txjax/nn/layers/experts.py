"""Mixture of experts: feed-forward networks of which each token is routed to a few."""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.nn.layers.linear import Linear, parameter
from txjax.nn.layers.mlp import MLP, GatedMLP, TokenContext
from txjax.nn.parameters.aux_outputs import sow_aux
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import role
from txjax.sharding import constrain, num_shards
from txjax.types import config_field


class Rows(NamedTuple):
    """Tokens dispatched to their experts.

    Attributes:
      x: [... D].
      product: (x [... in], kernel [E in out]) -> [... out], each token by its own expert's matrix.
      spread: bias [E out] -> the bias of each token's expert, broadcastable to [... out].
    """

    x: jax.Array
    product: Callable[[jax.Array, jax.Array], jax.Array]
    spread: Callable[[jax.Array], jax.Array]


Compute = Callable[[Rows], jax.Array]


@dataclasses.dataclass
class Routing:
    """Base of ways to dispatch tokens to their chosen experts and to combine the results."""

    def __call__(
        self, x: Float[Array, "B L D"], chosen: Int[Array, "B L K"], experts: int, compute: Compute
    ) -> tuple[Float[Array, "B L K D"], Bool[Array, "B L K"]]:
        """The output of each chosen expert for each token, zeros for dropped tokens; and which were not dropped.

        Args:
          chosen: indices of experts; an index out of range is not computed.
        """
        raise NotImplementedError


@dataclasses.dataclass
class Capacity(Routing):
    """Each expert has capacity for factor * K * L / E tokens of each example (Lepikhin et al. 2020, 2.2).

    First choices come before second ones, then earlier tokens before later ones. Tokens over capacity are dropped:
    only the residual stream carries them. Capacity is per example, so neither batch nor mesh changes the result.
    Whether a token is dropped may depend on first choices of later tokens.

    Attributes:
      factor: the capacity factor; at 1 no token is dropped if the load is even.
    """

    factor: float = config_field(1.25, above=0)

    def __call__(
        self, x: Float[Array, "B L D"], chosen: Int[Array, "B L K"], experts: int, compute: Compute
    ) -> tuple[Float[Array, "B L K D"], Bool[Array, "B L K"]]:
        length, choices = chosen.shape[1:]
        return _in_slots(x, chosen, experts, min(length, math.ceil(self.factor * choices * length / experts)), compute)


@dataclasses.dataclass
class Dropless(Routing):
    """No token is dropped: tokens are sorted by expert, one product a group (Gale et al. 2022).

    On a mesh that shards the batch or the experts, each expert has capacity for the whole example instead, which
    costs E / K times the products.
    """

    def __call__(
        self, x: Float[Array, "B L D"], chosen: Int[Array, "B L K"], experts: int, compute: Compute
    ) -> tuple[Float[Array, "B L K D"], Bool[Array, "B L K"]]:
        if num_shards("batch") > 1 or num_shards("experts") > 1:
            return _in_slots(x, chosen, experts, chosen.shape[1], compute)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        owner = jnp.minimum(flat[order], experts - 1)
        sizes = jnp.bincount(flat, length=experts)
        rows = Rows(
            x.reshape(-1, x.shape[-1])[order // chosen.shape[-1]],
            lambda x, kernel: jax.lax.ragged_dot(x, kernel, sizes),
            lambda bias: bias[owner],
        )
        out = jnp.where((flat < experts)[order, None], compute(rows), 0)
        out = jnp.zeros_like(out).at[order].set(out, unique_indices=True)
        return out.reshape(*chosen.shape, -1), chosen < experts


def _in_slots(
    x: jax.Array, chosen: jax.Array, experts: int, room: int, compute: Compute
) -> tuple[jax.Array, jax.Array]:
    """Routing with a capacity of `room` tokens of each example at each expert."""
    batch, length, choices = chosen.shape
    wanted = chosen.transpose(0, 2, 1).reshape(batch, -1)  # first choices first
    picks = jax.nn.one_hot(wanted, experts, dtype=jnp.int32)
    place = (picks * jnp.cumsum(picks, axis=1)).sum(-1) - 1
    fits = (place < room) & (wanted < experts)
    slot = jnp.where(fits, wanted * room + place, experts * room)  # beyond the last one: dropped

    def send(x: jax.Array, slot: jax.Array) -> jax.Array:
        empty = jnp.zeros((experts * room, x.shape[-1]), x.dtype)
        return empty.at[slot].set(jnp.tile(x, (choices, 1)), mode="drop", unique_indices=True)

    def fetch(y: jax.Array, slot: jax.Array) -> jax.Array:
        return y.at[slot].get(mode="fill", fill_value=0, unique_indices=True)

    def travel(y: jax.Array) -> jax.Array:
        return constrain(y, "experts", "routed")

    sent = jax.vmap(send)(x, slot).reshape(batch, experts, room, -1)
    rows = Rows(
        travel(sent.swapaxes(0, 1)),
        lambda x, kernel: jnp.einsum("ebci,eio->ebco", x, kernel),
        lambda bias: bias[:, None, None],
    )
    out = travel(compute(rows)).swapaxes(0, 1).reshape(batch, experts * room, -1)
    back = jax.vmap(fetch)(constrain(out, "batch"), slot)
    back, fits = (y.reshape(batch, choices, length, *y.shape[2:]).swapaxes(1, 2) for y in (back, fits))
    return back, fits


class _Linears(nn.Module):
    """One `Linear` for each expert. Parameters (float32): `kernel` [E in out], `bias` [E out].

    Attributes:
      experts: number of experts.
      features: size of the output.
      axes: logical names of input and output.
      use_bias, kernel_init, scale: as in `Linear`.
    """

    experts: int
    features: int
    axes: tuple[str, str]
    use_bias: bool
    kernel_init: KernelInit
    scale: float = 1.0

    @nn.compact
    def __call__(self, rows: Rows) -> Float[Array, "... F"]:
        """[..., in] -> [..., features] in the dtype of `rows.x`."""
        size = (rows.x.shape[-1], self.features)
        dtype = rows.x.dtype
        part = role(self.axes[:1], self.axes[1:])
        draw = nn.initializers.normal(self.scale * self.kernel_init.std(*size, part))
        kernel = parameter(self, "kernel", draw, (self.experts, *size), ("experts", *self.axes), 1)
        y = rows.product(rows.x, kernel.astype(dtype))
        if self.use_bias:
            shape = (self.experts, self.features)
            axes = ("experts", self.axes[1])
            y = y + rows.spread(parameter(self, "bias", nn.initializers.zeros, shape, axes).astype(dtype))
        return y


class Experts(MLP):
    """sum_k gate_k(x) * expert_k(x) over the router's `top` experts for x (Shazeer et al. 2017, 2).

    The gates are the router's probabilities, divided by their sum if `top` > 1 (Lepikhin et al. 2020, algorithm 1). The
    router computes in float32. Each expert is an `MLP` of the inherited sizes. Parameters: `router` [D E], `up`
    [E D F], `down` [E F D].

    Padding is not routed and not counted. Two terms of the loss, means over examples, summed over the layers:
    `experts_balance`, balance * E * sum_e f_e P_e, f_e the fraction of an example's choices that fall on expert e and
    P_e its mean probability there (Fedus et al. 2022, equation 4; equal to `balance` if the load is even); `experts_z`,
    router_z * the mean square of the logarithm of the router's partition function (Zoph et al. 2022, equation 5).
    Metrics: `experts_dropped`, the fraction of choices over capacity, and `experts_load_e`, f_e.

    Attributes:
      experts: number of experts, E.
      top: experts for each token, K.
      routing: `Capacity` or `Dropless`.
      balance, router_z: factors of the two terms; 0 omits the term.
    """

    experts: int = config_field(8, at_least=1)
    top: int = config_field(2, at_least=1)
    routing: Routing = dataclasses.field(default_factory=Capacity)
    balance: float = config_field(0.01, at_least=0)
    router_z: float = config_field(0.001, at_least=0)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: TokenContext) -> Float[Array, "B L D"]:
        kernel_init = self.kernel_init
        assert kernel_init
        if self.top > self.experts:
            raise UserError("config.model.mlp.top", f"at most the {self.experts} experts", self.top)
        width = x.shape[-1]
        residual_scale = kernel_init.residual_scale
        router = Linear((self.experts,), ("scores",), use_bias=False, kernel_init=kernel_init, name="router")
        scores = router(x.astype(jnp.float32))
        probabilities = jax.nn.softmax(scores)
        gates, chosen = jax.lax.top_k(probabilities, self.top)
        gates = gates / gates.sum(-1, keepdims=True) if self.top > 1 else gates
        token_mask = jnp.broadcast_to(True if context.token_mask is None else context.token_mask, x.shape[:2])
        chosen = jnp.where(token_mask[..., None], chosen, self.experts)  # padding is not routed

        def compute(rows: Rows) -> jax.Array:
            def enter(name: str) -> jax.Array:
                size = self.hidden_size(width)
                return _Linears(
                    self.experts, size, ("embed", "mlp"), self.use_bias, kernel_init=kernel_init, name=name
                )(rows)

            hidden = nn.Dropout(self.dropout, deterministic=not context.train)(self.inner(enter, context))
            axes = ("mlp", "embed")
            down = _Linears(
                self.experts,
                width,
                axes,
                self.use_bias,
                kernel_init=kernel_init,
                scale=residual_scale,
                name="down",
            )
            return down(rows._replace(x=hidden))

        out, fits = self.routing(x, chosen, self.experts, compute)

        def mean(values: jax.Array) -> jax.Array:
            """[B L N] -> [B N], over the tokens that are not padding."""
            return (values * token_mask[..., None]).sum(1) / jnp.maximum(token_mask.sum(1), 1)[:, None]

        load = mean(jax.nn.one_hot(chosen, self.experts).mean(2))
        if self.balance:
            even = self.experts * (load * mean(probabilities)).sum(-1, keepdims=True)
            sow_aux(self, "losses", "experts_balance", self.balance * even)
        if self.router_z:
            size = jnp.square(jax.nn.logsumexp(scores, -1, keepdims=True))
            sow_aux(self, "losses", "experts_z", self.router_z * mean(size))
        sow_aux(self, "metrics", "experts_dropped", mean(1 - fits.mean(-1, keepdims=True)))
        sow_aux(self, "metrics", "experts_load", load)
        return jnp.einsum("blkd,blk->bld", out, gates.astype(x.dtype))


class GatedExperts(GatedMLP, Experts):
    """`Experts` in which each expert is a `GatedMLP` (Jiang et al. 2024). Also has the parameter `gate` [E D F]."""
