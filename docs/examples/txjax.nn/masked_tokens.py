"""BERT's heads for pretraining."""

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.nn import MaskedTokens, NextSentence

model = Bert(vocab=30522, width=32, depth=1, heads=4, head=MaskedTokens(next_sentence=NextSentence()))
tokens, types = jnp.array([[101, 7592, 102, 2088, 102]]), jnp.array([[0, 0, 0, 1, 1]])
(_, pairs), variables = jax.eval_shape(model.init_with_output, jax.random.key(0), tokens, types=types)
print(pairs.shape)  # (1, 2)
print([name for name in variables["params"] if not name.startswith("embed")])
# ['head', 'layers', 'next_sentence', 'norm_embed', 'norm_transform', 'pooler', 'positions', 'transform']
