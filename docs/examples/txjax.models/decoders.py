"""Decoders.

The sizes of GPT-2 and Llama 7B, and reversible streams. `jax.eval_shape` allocates nothing.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.models.text.reversible import ReversibleDecoder
from txjax.nn import GPT2, Attention, GatedMLP, LayerNorm, Learned, RMSNorm, Rotary, Untied

llama = dict(norm=RMSNorm(), mixer=Attention(use_bias=False), mlp=GatedMLP(hidden=11008, use_bias=False))
models = {
    "GPT-2": Decoder(vocab=50257, width=768, depth=12, heads=12, positions=Learned(max_length=1024), initial=GPT2()),
    "Llama 7B": Decoder(vocab=32000, width=4096, depth=32, heads=32, positions=Rotary(), head=Untied(), **llama),
    "reversible": ReversibleDecoder(vocab=50257, width=768, depth=12, heads=12, norm=LayerNorm()),
}
for name, model in models.items():
    params = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros([1, 8], int))["params"]
    print(name, f"{sum(leaf.size for leaf in jax.tree.leaves(params)):,}")
# GPT-2 124,439,808
# Llama 7B 6,738,415,616
# reversible 123,653,376
