"""Encoders of texts.

Logits of each token of two texts, and the discriminator of ELECTRA by itself.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.models.text.deberta import Deberta
from txjax.models.text.electra import Electra
from txjax.nn import MaskedTokens, ReplacedTokens, TokenClasses

key, tokens = jax.random.key(0), jnp.zeros([2, 8], int)
sizes = dict(vocab=100, width=32, depth=2, heads=4)
for model in (Bert(**sizes, head=TokenClasses(9)), Deberta(**sizes, head=TokenClasses(9))):
    logits, _ = jax.eval_shape(model.init_with_output, key, tokens)
    print(type(model).__name__, logits.shape)
# Bert (2, 8, 9)
# Deberta (2, 8, 9)

electra = Electra(
    generator=Bert(vocab=100, width=16, depth=2, heads=2, embed_width=32, head=MaskedTokens()),
    discriminator=Bert(**sizes, head=ReplacedTokens()),
)
params = jax.eval_shape(electra.init, key, tokens)["params"]
discriminator, params = electra.alone("discriminator", params)
print(type(discriminator).__name__, sorted(params))
# Bert ['embed', 'embed_types', 'head', 'layers', 'norm_embed', 'positions', 'transform']
