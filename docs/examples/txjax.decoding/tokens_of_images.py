"""Tokens of an image.

MaskGIT decodes all of them in a few steps.
"""

import jax
import jax.numpy as jnp

from txjax.decoding import ParallelDecoding

decoding = ParallelDecoding(steps=4, temperature=4.5, schedule="cosine")
unknown, keys = jnp.full([1, 16], 8), jax.random.split(jax.random.key(0), 1)
scores = jax.nn.one_hot(jnp.arange(16) % 8, 8) * 20
tokens = decoding(lambda tokens: scores[None], unknown, mask_id=8, keys=keys)
print(tokens[0])  # [0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7]
