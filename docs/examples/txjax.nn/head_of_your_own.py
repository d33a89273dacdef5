"""A head of your own.

A mean and a standard deviation for each text.
"""

import dataclasses

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.nn import Head, MeanTokens


@dataclasses.dataclass
class Gaussian(Head):
    """Mean and standard deviation [B 2]. Parameters `head` [D 2]."""

    def __call__(self, encoded, context):
        mean, log_deviation = jnp.split(
            context.linear("head", 2, "classes")(MeanTokens()(encoded, context)), 2, axis=-1
        )
        return jnp.concatenate([mean, jnp.exp(log_deviation)], axis=-1)


model = Bert(vocab=10, width=32, depth=1, heads=4, head=Gaussian())
output, _ = jax.eval_shape(model.init_with_output, jax.random.key(0), jnp.array([[2, 5, 6, 3]]))
print(output.shape)  # (1, 2)
