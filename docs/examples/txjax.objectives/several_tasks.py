"""Several tasks.

Each task of a model has its head and its rows of a batch.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Classes, Heads, LastToken, Tied
from txjax.objectives import Classification, MultiTask, NextToken

key = jax.random.key(0)
heads = Heads({"topics": Classes(4, LastToken()), "texts": Tied()})
model = Decoder(vocab=100, width=32, depth=1, heads=4, head=heads)
objective = MultiTask(tasks={"topics": Classification(), "texts": NextToken()}, weights={"texts": 0.5})

rows = jnp.arange(18).reshape(2, 1, 9)  # two examples with one row of each task
topics = {"id": jnp.arange(2)[:, None], "tokens": rows, "label": jnp.array([[0], [3]]), "weights": jnp.ones([2, 1])}
texts = {
    "id": jnp.arange(2)[:, None],
    "tokens": rows[..., :-1],
    "targets": rows[..., 1:],
    "weights": jnp.ones([2, 1, 8]),
}
batch = {f"topics/{name}": array for name, array in topics.items()}
batch |= {f"texts/{name}": array for name, array in texts.items()} | {"id": jnp.arange(2)}
variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
print(list(output.losses), list(output.metrics))
# ['texts/next_token', 'topics/classification'] ['texts/accuracy', 'topics/accuracy']
