"""Masks of attention.

A row of two documents and padding (0): a query sees its own document, and nothing after itself.
"""

import jax.numpy as jnp

from txjax.nn import Mask

segments = jnp.array([[1, 1, 1, 2, 2, 0]])
mask = Mask(causal=True, query_segments=segments, key_segments=segments)
print(mask.dense(6, 6)[0, 0].astype(int))
# [[1 0 0 0 0 0]
#  [1 1 0 0 0 0]
#  [1 1 1 0 0 0]
#  [0 0 0 1 0 0]
#  [0 0 0 1 1 0]
#  [0 0 0 0 0 1]]

print(Mask(causal=True).pairs(1024, 1024), Mask(causal=True, window=128).pairs(1024, 1024))
# 524800 122944
