"""Lazy logits: only the positions that are needed are computed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn.layers.linear import align
from txjax.nn.parameters import remat
from txjax.sharding import constrain


@jax.custom_vjp
def _product(x: Float[Array, "M D"], kernel: Float[Array, "D V"]) -> Float[Array, "M V"]:
    """x . kernel in float32, of inputs in the dtype of x.

    Its backward products also accumulate in float32 and have inputs in the dtype of x. By default the float32 gradient
    of the logits would make them float32 products, which are slower on accelerators.
    """
    return jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=jnp.float32)


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, Any]:
    return _product(x, kernel), (x, kernel)


def _backward(residuals: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = residuals
    gradient = gradient.astype(x.dtype)
    of_x = jnp.matmul(gradient, kernel.astype(x.dtype).T, preferred_element_type=jnp.float32)
    of_kernel = jnp.matmul(x.T, gradient, preferred_element_type=jnp.float32)
    return of_x.astype(x.dtype), of_kernel.astype(kernel.dtype)


_product.defvjp(_forward, _backward)

_Leaf = Any  # an array, or what stands for one in a tree of shapes or shardings


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Logits:
    """features . kernel + bias over the vocabulary, computed on demand.

    The logits [B L V] are the largest array of a language model. So choose positions first (`logits[:, -1]`,
    `take`), and compute a few numbers a position in chunks with `reduce`.

    Attributes:
      features: [*batch D], in the dtype of the product's inputs.
      kernel: float32 [D V]. If None, the features are the logits.
      bias: float32 [V]. If None, nothing is added.
      cap: logits x are cap * tanh(x / cap). If None, they are not bounded.
    """

    features: _Leaf
    kernel: _Leaf | None = None
    bias: _Leaf | None = None
    cap: float | None = dataclasses.field(default=None, metadata={"static": True})

    @staticmethod
    def of(output: Any) -> Logits:
        """A model's output, Logits or an array, as Logits."""
        return output if isinstance(output, Logits) else Logits(jnp.asarray(output))

    def dense(self) -> Float[Array, "*batch V"]:
        """The array, float32."""
        logits = self._unbounded()
        return logits if self.cap is None else self.cap * jnp.tanh(logits / self.cap)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """All logits, `dense`, as NumPy's array: `np.asarray(logits)`, `np.asarray(logits, dtype)`.

        Raises:
          ValueError: `copy` is False, as the logits are computed for the array.
        """
        if copy is False:
            raise ValueError("Logits are computed for an array, which is a new one: leave out copy=False")
        return np.array(self.dense(), dtype, copy=copy)

    def __jax_array__(self) -> Float[Array, "*batch V"]:
        """All logits, `dense`, for `jnp.asarray`."""
        return self.dense()

    def _unbounded(self) -> jax.Array:
        if self.kernel is None:
            return self.features.astype(jnp.float32)
        lead = self.features.shape[:-1]
        with jax.named_scope("head"):
            logits = _product(self.features.reshape(math.prod(lead), -1), self.kernel).reshape(*lead, -1)
        return logits if self.bias is None else logits + align(self.bias, logits)

    def __getitem__(self, index: Any) -> Logits:
        """The logits at some of the positions: an index of the dimensions before V."""
        return dataclasses.replace(self, features=self.features[index])

    def take(self, positions: Int[Array, "*batch P"]) -> Logits:
        """The logits [*batch P V] at these positions of each row."""
        features = jnp.take_along_axis(self.features, positions[..., None], axis=-2)
        return dataclasses.replace(self, features=features)

    def first(self, count: int) -> Logits:
        """The logits [*batch count] of the first ids of the vocabulary."""
        if self.kernel is None:
            return dataclasses.replace(self, features=self.features[..., :count])
        bias = None if self.bias is None else self.bias[:count]
        return dataclasses.replace(self, kernel=self.kernel[:, :count], bias=bias)

    def reduce(
        self, function: Callable[..., Any], *rows: jax.Array, chunk: int | None = None, dtype: DTypeLike = jnp.float32
    ) -> Any:
        """function(logits [*batch V], *rows [*batch]), which gives an array, or a tree of arrays, [*batch].

        Args:
          chunk: positions of each row that are computed at a time; the backward pass computes them again, so that
            neither pass has more logits in memory than [*batch without its last dimension, chunk, V]. If None, all.
            What `function` names `log_z` is kept.
          dtype: of the logits that `function` gets.
        """
        length = self.features.shape[-2]
        if chunk is None or chunk >= length:
            return function(self.dense().astype(dtype), *rows)
        turns = -(-length // chunk)
        axis = self.features.ndim - 2

        def cut(x: jax.Array) -> jax.Array:
            """[*batch ...] -> [turns *batch' chunk ...], padded with zeros."""
            filled = [(0, turns * chunk - length if i == axis else 0) for i in range(x.ndim)]
            x = jnp.pad(x, filled).reshape(*x.shape[:axis], turns, chunk, *x.shape[axis + 1 :])
            return jnp.moveaxis(x, axis, 0)

        # All-gathered once, not in every turn; cast in each turn, so that the turns' gradients are summed in float32.
        kernel = None if self.kernel is None else constrain(self.kernel, "width", "vocab")

        def turn(features: jax.Array, *rows: jax.Array) -> Any:
            part = dataclasses.replace(self, features=features, kernel=kernel)
            return function(part.dense().astype(dtype), *rows)

        def join(x: jax.Array) -> jax.Array:
            x = jnp.moveaxis(x, 0, axis)
            return x.reshape(*x.shape[:axis], turns * chunk)[..., :length]

        recompute = remat.recomputed(turn, turns, remat.LOG_Z)
        parts = jax.lax.map(lambda part: recompute(*part), tuple(cut(x) for x in (self.features, *rows)))
        return jax.tree.map(join, parts)
