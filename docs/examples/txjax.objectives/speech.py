"""Losses of speech.

CTC, and CTC beside a decoder.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.audio.conformer import Conformer
from txjax.models.audio.speech_transformer import SpeechTransformer
from txjax.nn import TokenClasses
from txjax.objectives import CTC, JointCTC

key = jax.random.key(0)
letters = 28
encoder = Conformer(width=32, depth=1, heads=4, head=None)
batch = {
    "id": jnp.arange(2),
    "features": jnp.zeros([2, 80, 80]),
    "features_length": jnp.array([80, 60]),
    "transcript": jnp.array([[8, 5, 12, 12, 15], [8, 9, 0, 0, 0]]),
    "transcript_length": jnp.array([5, 2]),
    "weights": jnp.ones(2),
}
text = {
    "tokens": jnp.array([[0, 8, 5, 12, 12, 15], [0, 8, 9, 0, 0, 0]]),
    "targets": jnp.array([[8, 5, 12, 12, 15, 0], [8, 9, 0, 0, 0, 0]]),
    "weights": jnp.array([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]),
}
decoder = SpeechTransformer(
    encoder=encoder, vocab=letters, width=32, depth=1, heads=4, ctc_head=TokenClasses(letters + 1)
)
systems = (
    (CTC(), encoder.clone(head=TokenClasses(letters + 1)), batch),
    (JointCTC(ctc_weight=0.3), decoder, batch | text),
)
for objective, model, batch in systems:
    variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
    output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
    print(type(objective).__name__, list(output.losses), list(output.metrics))
# CTC ['ctc'] ['too_long']
# JointCTC ['ctc', 'next_token'] ['accuracy', 'too_long']
