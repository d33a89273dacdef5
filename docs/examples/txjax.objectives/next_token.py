"""The next token.

The losses of a batch are sums and counts.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.objectives import CrossEntropy, NextToken

text = jnp.array([[3, 1, 4, 1, 5, 9, 2, 6, 5]])
batch = {"id": jnp.array([0]), "tokens": text[:, :-1], "targets": text[:, 1:], "weights": jnp.ones([1, 8])}
model = Decoder(vocab=10, width=32, depth=1, heads=4)
objective = NextToken(loss=CrossEntropy(chunk=4))
variables = jax.jit(partial(objective.init, model))({"params": jax.random.key(0)}, batch)
output = jax.jit(partial(objective, model, train=False))(variables, batch, jax.random.key(1))
print({name: mean.count.item() for name, mean in (output.losses | output.metrics).items()})
# {'next_token': 8.0, 'accuracy': 8.0}
