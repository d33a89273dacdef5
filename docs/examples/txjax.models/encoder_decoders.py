"""From a source to a target.

A Transformer, and recurrent cells with attention.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.text.recurrent import RecurrentEncoderDecoder

source, target = jnp.array([[5, 6, 7, 8, 1]]), jnp.array([[0, 9, 8, 7]])  # end token 1, start token 0
models = (
    EncoderDecoder(vocab=100, width=32, depth=2, heads=4, encoder_depth=3),
    RecurrentEncoderDecoder(vocab=100, width=32, source_vocab=50),
)
for model in models:
    variables = jax.eval_shape(model.init, jax.random.key(0), target, source)
    print(type(model).__name__, sorted(variables["params"]))
# EncoderDecoder ['decoder', 'embed', 'encoder']
# RecurrentEncoderDecoder ['decoder', 'embed', 'embed_source', 'encoder', 'head', 'out', 'start']
