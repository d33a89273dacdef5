"""Texts of frames.

The blank is the likeliest class in both frames, and yet "a" is the likeliest text, by its three paths.
"""

import jax.numpy as jnp

from txjax.decoding import BestPath, PrefixBeam

logits = jnp.log(jnp.array([[[0.4, 0.6], [0.4, 0.6]]]))  # "a" and the blank in two frames
for search in (BestPath(), PrefixBeam(size=4)):
    texts = search(logits, frames=jnp.array([2]))
    print(type(search).__name__, texts.lengths[0, 0], f"{jnp.exp(texts.scores[0, 0]):.2f}")
# BestPath 0 0.36
# PrefixBeam 1 0.64
