"""Several tasks of one model, each with its head and its rows of a batch."""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.nn import Classes, FirstToken, Heads, StartEnd
from txjax.objectives import Classification, MultiTask, Spans

key = jax.random.key(0)
heads = Heads({"topics": Classes(4, FirstToken()), "answers": StartEnd()})
model = Bert(vocab=100, width=32, depth=1, heads=4, head=heads)
objective = MultiTask(tasks={"topics": Classification(), "answers": Spans()}, weights={"answers": 0.5})

rows = jnp.arange(16).reshape(2, 8)
batch = {
    "id": jnp.arange(2),
    "topics/id": jnp.arange(2)[:, None],
    "topics/tokens": rows[:, None],
    "topics/label": jnp.array([[0], [3]]),
    "topics/weights": jnp.ones([2, 1]),
    "answers/id": jnp.arange(2)[:, None],
    "answers/tokens": rows[:, None],
    "answers/start": jnp.array([[2], [5]]),
    "answers/end": jnp.array([[3], [7]]),
    "answers/weights": jnp.ones([2, 1]),
}
variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
print(list(output.losses), list(output.metrics))
