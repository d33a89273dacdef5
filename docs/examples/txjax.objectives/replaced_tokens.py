"""Replaced tokens.

ELECTRA's small generator, and the discriminator that finds its errors.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.models.text.electra import Electra
from txjax.nn import MaskedTokens, ReplacedTokens
from txjax.objectives import ReplacedToken

key = jax.random.key(0)
model = Electra(
    generator=Bert(vocab=100, width=16, depth=1, heads=2, embed_width=32, head=MaskedTokens()),
    discriminator=Bert(vocab=100, width=32, depth=2, heads=4, head=ReplacedTokens()),
)
objective = ReplacedToken(mask_id=99, vocab=99, rate=0.25)
batch = {"id": jnp.array([0]), "tokens": jnp.arange(16)[None], "weights": jnp.ones([1, 16])}
variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
print(list(output.losses))  # ['masked_token', 'replaced_token']
print([name for name in output.metrics if name.startswith("replaced")])
# ['replaced', 'replaced_accuracy', 'replaced_auc', 'replaced_precision', 'replaced_recall']
