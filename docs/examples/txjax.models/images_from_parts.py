"""Images from parts.

A masked autoencoder reads a quarter of the patches; a tokenizer makes few tokens of many pixels.
"""

import jax
import jax.numpy as jnp

from txjax.models.vision.mae import MAE
from txjax.models.vision.vq_tokenizer import VQTokenizer

key, image = jax.random.key(0), jnp.zeros([2, 32, 32, 3])

mae = MAE(patch=8, width=32, depth=2, heads=4, decoder_width=16, decoder_depth=1, decoder_heads=2)
visible = jnp.array([[0, 3, 7, 12], [1, 2, 8, 15]])
pixels, _ = jax.eval_shape(mae.init_with_output, key, image, visible)
print(pixels.shape)  # (2, 16, 192)

tokenizer = VQTokenizer(width=32, depth=1, multipliers=(1, 2, 2), codes=1024, code_size=16, channels=3)
variables = jax.eval_shape(tokenizer.init, key, image)
tokens = jax.eval_shape(lambda variables: tokenizer.apply(variables, image, method="encode"), variables)
print(tokens.shape)  # (2, 8, 8)
