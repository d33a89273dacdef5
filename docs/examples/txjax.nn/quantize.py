"""Products in eight bits.

The MLPs alone have them here, and the logits differ by little. The extra `quantize` is needed.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Quantize

tokens = jnp.array([[3, 1, 4, 1, 5]])
model = Decoder(vocab=10, width=32, depth=2, heads=4)
logits, variables = model.init_with_output(jax.random.key(0), tokens)
eight_bits = model.clone(quantize=Quantize(dtype="int8", paths="mlp/.*"))
difference = eight_bits.apply(variables, tokens).dense() - logits.dense()
print(0 < jnp.abs(difference).max() < 0.1)  # True
