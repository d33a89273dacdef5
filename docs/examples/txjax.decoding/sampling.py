"""Sampling: which tokens may be drawn, and texts of a decoder."""

import jax
import jax.numpy as jnp

from txjax.decoding import Cached, Sampling
from txjax.models.text.decoder import Decoder

logits = jnp.log(jnp.array([[0.5, 0.3, 0.15, 0.05]]))
for sampling in (Sampling(top_k=2), Sampling(top_p=0.9), Sampling(min_p=0.2), Sampling(temperature=0.5)):
    print(jax.nn.softmax(sampling.filter(logits)).round(2)[0])
# [0.62 0.38 0.   0.  ]
# [0.53 0.32 0.16 0.  ]
# [0.53 0.32 0.16 0.  ]
# [0.68 0.25 0.06 0.01]

model = Decoder(vocab=100, width=32, depth=1, heads=4)
prompts = {"tokens": jnp.array([[1, 2, 3], [4, 5, 6]])}
variables = model.init(jax.random.key(0), **prompts)
tokens = Sampling(temperature=0.8, top_k=20)(Cached(model), variables, prompts, length=5, key=jax.random.key(1))
print(tokens.shape)  # (2, 5)
