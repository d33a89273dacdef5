"""Tasks of texts.

An objective, the head that it needs, its losses and its metrics.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.nn import Classes, FirstToken, Heads, MeanTokens, StartEnd, Tied, TokenClasses
from txjax.objectives import (
    Classification,
    MultipleChoice,
    Regression,
    Spans,
    TokenClassification,
    WithNextToken,
)

key = jax.random.key(0)
rows = jnp.array([[2, 5, 6, 7, 8, 3], [2, 8, 7, 6, 5, 3]])
texts = {"id": jnp.arange(2), "tokens": rows, "segments": jnp.ones([2, 6], int), "weights": jnp.ones(2)}
labels = {
    "label": jnp.array([0, 1]),
    "value": jnp.array([0.5, 1.5]),
    "start": jnp.array([1, 2]),
    "end": jnp.array([2, 4]),
}
of_tokens = {"targets": rows, "weights": jnp.ones([2, 6])}
choices = {"choice_tokens": jnp.stack([rows, rows[:, ::-1]], axis=1), "choice_segments": jnp.ones([2, 2, 6], int)}
tasks = (
    (Classification(), Classes(3, FirstToken()), texts | labels),
    (Regression(), Classes(1, MeanTokens()), texts | labels),
    (Spans(), StartEnd(), texts | labels),
    (MultipleChoice(), Classes(1, FirstToken()), texts | labels | choices),
    (TokenClassification(), TokenClasses(10), texts | of_tokens),
    (WithNextToken(weight=0.5), Heads({"task": Classes(3, MeanTokens()), "text": Tied()}), texts | labels),
)
for objective, head, batch in tasks:
    model = Bert(vocab=10, width=32, depth=1, heads=4, head=head)
    variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
    output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
    print(type(objective).__name__, list(output.losses), list(output.metrics))
# Classification ['classification'] ['accuracy']
# Regression ['regression'] ['absolute_error']
# Spans ['spans'] ['exact_match']
# MultipleChoice ['multiple_choice'] ['accuracy']
# TokenClassification ['token_classification'] ['accuracy']
# WithNextToken ['classification', 'next_token'] ['accuracy', 'text_accuracy']
