"""A student and its teacher.

The teacher's parameters come from its run and are not trained.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.objectives import Distillation, MaskedToken
from txjax.optim import AdamW, train_all_but
from txjax.transfer import Every, From

key = jax.random.key(0)
sizes = dict(vocab=100, width=32, heads=4)
teacher, student = Bert(depth=4, **sizes), Bert(depth=2, **sizes)
objective = Distillation(teacher=teacher, objective=MaskedToken(mask_id=99, vocab=99), temperature=2.0)
# Fields of the `Experiment`: both from the teacher's run, the student with every second layer.
optimizer = AdamW(groups=train_all_but("teacher/.*"))
init_from = (From("runs/teacher", here="teacher"), From("runs/teacher", resize=(Every(step=2),)))

batch = {"id": jnp.array([0]), "tokens": jnp.arange(16)[None], "weights": jnp.ones([1, 16])}
variables = jax.eval_shape(partial(objective.init, student), {"params": key}, batch)
output = jax.eval_shape(partial(objective, student, train=True), variables, batch, key)
print(list(output.losses))  # ['hidden_states', 'masked_token', 'soft_targets']
