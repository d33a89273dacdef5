"""Attention to a source.

Its heads are as many as the model's, here of twice their size.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import CrossAttention

model = EncoderDecoder(vocab=16, width=32, depth=1, heads=4, cross=CrossAttention(head_size=16, dropout=0.1))
source, target = jnp.array([[5, 6, 7, 1]]), jnp.array([[0, 8, 9]])
variables = jax.eval_shape(model.init, jax.random.key(0), target, source)
kernel = variables["params"]["decoder"]["layers"]["block"]["cross"]["query"]["kernel"]
print(kernel.value.shape)  # (1, 32, 4, 16)
