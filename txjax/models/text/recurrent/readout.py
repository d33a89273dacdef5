"""Readouts: from a decoder's state, its input and its context to the features of the next token."""

import functools
import operator

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.init import KernelInit
from txjax.types import config_field


class Readout(nn.Module):
    """Base of readouts.

    Attributes:
      width, use_bias, kernel_init: set by the model; the width is that of the states.
      size: R, of the output. If None, the readout's own default.
    """

    width: int | None = None
    use_bias: bool | None = None
    kernel_init: KernelInit | None = None
    size: int | None = config_field(None, at_least=1)

    def __call__(
        self, state: Float[Array, "B L D"], embedded: Float[Array, "B L M"], context: Float[Array, "B L C"]
    ) -> Float[Array, "B L R"]:
        """The features, from which a head computes logits."""
        raise NotImplementedError

    @nn.nowrap
    def total(self, features: tuple[int, ...], axes: tuple[str, ...], **inputs: jax.Array) -> jax.Array:
        """The sum of the inputs' products, each with a kernel under its name; the first has the bias."""
        assert self.kernel_init
        biases = (bool(self.use_bias), *(False for _ in inputs))
        named = zip(inputs.items(), biases, strict=False)
        parts = (
            Linear(features, axes, use_bias=bias, kernel_init=self.kernel_init, name=name)(x)
            for (name, x), bias in named
        )
        return functools.reduce(operator.add, parts)


class Maxout(Readout):
    """The larger of each pair of sums of products (Bahdanau et al. 2015, A.2.2; Goodfellow et al. 2013).

    `size`: by default half the width. Parameters: `state` [D R 2], `embedded` [M R 2], `context` [C R 2].
    """

    @nn.compact
    def __call__(
        self, state: Float[Array, "B L D"], embedded: Float[Array, "B L M"], context: Float[Array, "B L C"]
    ) -> Float[Array, "B L R"]:
        assert self.width
        size = self.size or max(self.width // 2, 1)
        pairs = self.total((size, 2), ("mlp", "pieces"), state=state, embedded=embedded, context=context)
        return pairs.max(-1)


class AttentionalState(Readout):
    """tanh of the sum of the state's and the context's products (Luong et al. 2015, equation 5).

    `size`: by default the width. Parameters: `state` [D R], `context` [C R].
    """

    @nn.compact
    def __call__(
        self, state: Float[Array, "B L D"], embedded: Float[Array, "B L M"], context: Float[Array, "B L C"]
    ) -> Float[Array, "B L R"]:
        assert self.width
        return jnp.tanh(self.total((self.size or self.width,), ("mlp",), state=state, context=context))
