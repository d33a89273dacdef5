"""Encodings of positions.

They are added to embeddings, rotate queries and keys, or are biases of the scores. A model's field takes any of them.
"""

import jax
import jax.numpy as jnp

from txjax.nn import Alibi, Learned, NoPositions, Rotary, Sinusoidal, T5Relative

key, numbers, embeddings = jax.random.key(0), jnp.arange(4)[None], jnp.zeros([1, 4, 8])
for positions in (NoPositions(), Sinusoidal(), Learned(max_length=512)):
    sums, variables = positions.init_with_output(key, embeddings, numbers, method="add")
    print(type(positions).__name__, sums.shape, [leaf.shape for leaf in jax.tree.leaves(variables)])
# NoPositions (1, 4, 8) []
# Sinusoidal (1, 4, 8) []
# Learned (1, 4, 8) [(512, 8)]

cosines, sines = Rotary().rotation(numbers, head_size=8)
print(cosines.shape, sines.shape)  # (1, 4, 4) (1, 4, 4)

print(Alibi().bias(numbers, numbers, heads=8)[0, 0])
# [[-0.  -0.5 -1.  -1.5]
#  [-0.5 -0.  -0.5 -1. ]
#  [-1.  -0.5 -0.  -0.5]
#  [-1.5 -1.  -0.5 -0. ]]
bias, variables = T5Relative(buckets=32).init_with_output(key, numbers, numbers, heads=8, method="bias")
print(bias.shape, [leaf.shape for leaf in jax.tree.leaves(variables)])
# (1, 8, 4, 4) [(32, 8)]
