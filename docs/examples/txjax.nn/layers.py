"""Layers by themselves.

A projection to heads, a table of vectors, a convolution. Their axes have logical names, by which a mesh shards them.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax.nn import Conv, Embed, Linear

key = jax.random.key(0)
query = Linear(features=(4, 16), axes=("heads", "head_size"))
heads, variables = jax.eval_shape(query.init_with_output, key, jnp.zeros([2, 8, 64]))
print(heads.shape)  # (2, 8, 4, 16)
print(nn.get_partition_spec(variables)["params"]["kernel"])
# P('embed', 'heads', 'head_size')

vectors, _ = Embed(vocab=100, width=64).init_with_output(key, jnp.array([[1, 2, 3]]))
print(vectors.shape)  # (1, 3, 64)

depthwise = Conv(features=(64,), size=(3, 3), groups=64, strides=(2, 2))
image, _ = depthwise.init_with_output(key, jnp.zeros([2, 8, 8, 64]))
print(image.shape)  # (2, 4, 4, 64)
