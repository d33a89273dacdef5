"""Sampling.

The probabilities of four tokens, and a token of each of three texts.
"""

import jax
import jax.numpy as jnp

from txjax.decoding import Sampling

logits = jnp.log(jnp.array([[0.5, 0.3, 0.15, 0.05]]))
for sampling in (Sampling(top_k=2), Sampling(top_p=0.9), Sampling(min_p=0.2), Sampling(temperature=0.5)):
    print(jax.nn.softmax(sampling.filter(logits)).round(2)[0])
# [0.62 0.38 0.   0.  ]
# [0.53 0.32 0.16 0.  ]
# [0.53 0.32 0.16 0.  ]
# [0.68 0.25 0.06 0.01]

print(Sampling(temperature=0.8, top_k=3).draw(logits.repeat(3, axis=0), jax.random.key(0)))
# [1 0 2]
