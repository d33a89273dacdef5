"""Models of your own.

A Transformer that reads series of numbers, and a model without a stack. Blocks, masks, adapters and meshes are the
base's.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax.models import Model, Transformer
from txjax.nn import Classes, Encoded, Head, LastToken, Linear, Mask, MeanTokens, StackInputs


class Series(Transformer, kw_only=True):
    """Several series of numbers [B L C], read from left to right."""

    head: Head

    @nn.compact
    def __call__(self, features, train=False):
        x = Linear((self.width,), ("embed",), ("channels",), name="embed")(features)
        steps = jnp.arange(x.shape[1])[None]
        inputs = StackInputs(steps, steps, Mask(causal=True), train)
        x = self.end(self.layers(self.positions.add(x, steps), inputs), train)
        return self.apply_head(Encoded(x), self.head, train)


class Linears(Model, kw_only=True):
    """A classifier of each step's numbers by themselves, as a baseline."""

    head: Head

    @nn.compact
    def __call__(self, features, train=False):
        return self.apply_head(Encoded(features), self.head, train)


features = jnp.zeros([2, 24, 3])
for model in (Series(width=32, depth=2, heads=4, head=Classes(5, LastToken())), Linears(head=Classes(5, MeanTokens()))):
    logits, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), features)
    print(type(model).__name__, logits.shape, sorted(variables["params"]))
# Series (2, 5) ['embed', 'head', 'layers', 'norm_final']
# Linears (2, 5) ['head']
