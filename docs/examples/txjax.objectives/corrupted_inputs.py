"""Corrupted inputs.

What a model has to restore: masked tokens, spans that are cut out, hidden patches.
"""

import jax
import jax.numpy as jnp

from txjax.objectives import MaskedPatch, MaskedToken, SpanCorruption

key, tokens, weights = jax.random.key(0), jnp.arange(10, 26), jnp.ones(16)

masked_token = MaskedToken(mask_id=99, vocab=90, rate=0.25)
corrupted, positions, chosen = masked_token.corrupt(key, tokens, weights)
print(corrupted, positions[chosen])
# [10 11 12 99 14 15 16 17 18 19 99 21 99 23 24 25] [ 9 10  3 12]

span_corruption = SpanCorruption(sentinel_id=99, end_id=1, rate=0.25, mean_span=2.0)
source, _, target, _ = span_corruption.corrupt(key, tokens, weights)
print(source, target)
# [10 11 12 13 14 15 16 17 18 19 99 21 22 98  1] [99 20 98 23 24 25  1]

masked_patch = MaskedPatch(rate=0.75)
print(masked_patch.keep(key, {"id": jnp.array([0, 1])}, rows=4, columns=4))
# [[ 0  2  8 10]
#  [ 0  3  5  9]]
