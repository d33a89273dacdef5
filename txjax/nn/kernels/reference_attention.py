"""Reference attention, compiled by XLA: any shape, dtype, mask and backend."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.kernels.mask import Mask

FAR = -1e30  # finite, so that a fully masked row gives a mean and not a NaN


def reference_attention(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask,
    bias: Float[Array, "#B H L S"] | None = None,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
) -> Float[Array, "B L H K"]:
    """softmax(query . key / sqrt(K) + bias) . value, the softmax in float32 (Vaswani et al. 2017, equation 1).

    Each of the G key heads is shared by H/G consecutive query heads (Ainslie et al. 2023). The queries are scaled
    before the product and the output is divided by the sum: fewer passes over the scores. Heads come before positions
    in all products: XLA on CPU is slower at any other order. The products of the backward pass have the operands' dtype
    too: the gradients of scores and outputs are rounded to it.
    """
    batch, length, heads, size = query.shape
    _, source, groups, _ = key.shape
    scores = _scores(query, key, mask, bias)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    total = weights.sum(-1, keepdims=True)
    if dropout is not None:
        weights = dropout(weights)
    value = value.transpose(0, 2, 1, 3)
    weights = weights.astype(value.dtype).reshape(batch, groups, -1, source)
    out = _product("bgqs,bgsk->bgqk", weights, value)
    out = out.reshape(batch, heads, length, size) / total
    return out.astype(query.dtype).transpose(0, 2, 1, 3)


def attention_weights(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    mask: Mask,
    bias: Float[Array, "#B H L S"] | None = None,
) -> Float[Array, "B H L S"]:
    """softmax(query . key / sqrt(K) + bias), float32: the weights that `reference_attention` gives to the values."""
    return jax.nn.softmax(_scores(query, key, mask, bias), axis=-1)


def log_normaliser(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    mask: Mask,
    bias: Float[Array, "#B H L S"] | None = None,
) -> Float[Array, "B H L"]:
    """The logarithm of the sum of the exponentials of the scores, float32."""
    return jax.nn.logsumexp(_scores(query, key, mask, bias), axis=-1)


def _scores(query: jax.Array, key: jax.Array, mask: Mask, bias: jax.Array | None) -> jax.Array:
    """query . key / sqrt(K) + bias, float32 [B H L S], `FAR` where the mask forbids a pair."""
    batch, length, heads, size = query.shape
    _, source, groups, _ = key.shape
    query = query * jnp.asarray(size**-0.5, query.dtype)
    query, key = (x.transpose(0, 2, 1, 3) for x in (query, key))
    query = query.reshape(batch, groups, -1, size)
    scores = _product("bgqk,bgsk->bgqs", query, key)
    scores = scores.reshape(batch, heads, length, source)
    if bias is not None:
        scores = scores + bias
    allowed = mask.dense(length, source)
    return scores if allowed is None else jnp.where(allowed, scores, FAR)


def _product(equation: str, x: jax.Array, y: jax.Array) -> jax.Array:
    """`jnp.einsum` with a float32 result, whose backward pass multiplies arrays of the operands' dtype."""
    if jnp.float32 in (x.dtype, y.dtype):
        return jnp.einsum(equation, x, y, preferred_element_type=jnp.float32)
    return _narrow_product(equation, x, y)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _narrow_product(equation: str, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.einsum(equation, x, y, preferred_element_type=jnp.float32)


def _forward(equation: str, x: jax.Array, y: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _narrow_product(equation, x, y), (x, y)


def _backward(equation: str, operands: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    _, multiply = jax.vjp(functools.partial(jnp.einsum, equation), *operands)
    return multiply(gradient.astype(operands[0].dtype))


_narrow_product.defvjp(_forward, _backward)
