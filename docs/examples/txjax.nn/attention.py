"""Kinds of attention in a decoder.

Which of eight outputs change with the first token? One layer without positions; the windows have three tokens.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, LinearAttention, NoPositions, RMSNorm

tokens = jnp.array([[3, 1, 4, 1, 5, 9, 2, 6]])
other = tokens.at[0, 0].set(7)
mixers = {
    "full": Attention(qk_norm=RMSNorm(), use_bias=False),
    "window": Attention(window=3),
    "linear": LinearAttention(chunk=4),
}
for name, mixer in mixers.items():
    model = Decoder(vocab=10, width=32, depth=1, heads=4, kv_heads=2, mixer=mixer, positions=NoPositions())
    logits, variables = model.init_with_output(jax.random.key(0), tokens)
    changes = jnp.abs(logits.dense() - model.apply(variables, other).dense()).max(-1)
    print(name, (changes[0] > 1e-6).astype(int))
# full [1 1 1 1 1 1 1 1]
# window [1 1 1 0 0 0 0 0]
# linear [1 1 1 1 1 1 1 1]
