"""Logits that are not computed before somebody knows how little of them is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.linear import align, project
from txjax.sharding import constrain

_Leaf = Any  # an array, or what stands for one in a tree of shapes or shardings


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Logits:
    """features . kernel + bias over the vocabulary, not yet computed.

    Of all arrays of a language model the logits [B L V] are the largest. So choose positions first (`logits[:, -1]`,
    `take`), and where only a few numbers a position are wanted, let `reduce` find them in chunks.

    Attributes:
      features: [*batch D], in the dtype of the product's inputs.
      kernel: float32 [D V]; None = the features are the logits.
      bias: float32 [V]; None = nothing.
    """

    features: _Leaf
    kernel: _Leaf | None = None
    bias: _Leaf | None = None

    @staticmethod
    def of(output: Any) -> Logits:
        """What a model gave, as logits: they may be Logits or an array."""
        return output if isinstance(output, Logits) else Logits(jnp.asarray(output))

    def dense(self) -> Float[Array, "*batch V"]:
        """The array, float32."""
        if self.kernel is None:
            return self.features.astype(jnp.float32)
        logits = project(self.features, self.kernel, dtype=jnp.float32)
        return logits if self.bias is None else logits + align(self.bias, logits)

    def __getitem__(self, index: Any) -> Logits:
        """The logits at some of the positions: an index of the dimensions before V."""
        return dataclasses.replace(self, features=self.features[index])

    def take(self, places: Int[Array, "*batch P"]) -> Logits:
        """The logits [*batch P V] at these places of each row of positions."""
        features = jnp.take_along_axis(self.features, places[..., None], axis=-2)
        return dataclasses.replace(self, features=features)

    def reduce(self, function: Callable[..., Any], *rows: jax.Array, chunk: int | None = None) -> Any:
        """function(logits [*batch V], *rows [*batch]), which gives an array, or a tree of arrays, [*batch].

        Args:
          chunk: positions of each row that are computed at a time; the backward pass computes them again, so that
            neither pass holds more logits than [*batch without its last dimension, chunk, V]. None = all at once.
        """
        length = self.features.shape[-2]
        if chunk is None or chunk >= length:
            return function(self.dense(), *rows)
        turns = -(-length // chunk)
        axis = self.features.ndim - 2

        def cut(x: jax.Array) -> jax.Array:
            """[*batch ...] -> [turns *batch' chunk ...], the last positions filled up with zeros."""
            filled = [(0, turns * chunk - length if i == axis else 0) for i in range(x.ndim)]
            x = jnp.pad(x, filled).reshape(*x.shape[:axis], turns, chunk, *x.shape[axis + 1 :])
            return jnp.moveaxis(x, axis, 0)

        # Gathered once, not in every turn. It is cast in the turns: the gradients of all turns are summed in float32.
        kernel = None if self.kernel is None else constrain(self.kernel, "width", "vocab")

        @jax.checkpoint
        def turn(features: jax.Array, *rows: jax.Array) -> Any:
            return function(Logits(features, kernel, self.bias).dense(), *rows)

        def join(x: jax.Array) -> jax.Array:
            x = jnp.moveaxis(x, 0, axis)
            return x.reshape(*x.shape[:axis], turns * chunk)[..., :length]

        parts = jax.lax.map(lambda part: turn(*part), tuple(cut(x) for x in (self.features, *rows)))
        return jax.tree.map(join, parts)
