"""Searches, and one of your own."""

import jax
import jax.numpy as jnp

from txjax.decoding import Beam, Cached, Search
from txjax.models.text.decoder import Decoder


class Greedy(Search):
    """The likeliest token after each other."""

    def __call__(self, generator, variables, inputs, length, key):
        logits, state = generator.start(variables, inputs, length)
        tokens = [logits.argmax(-1)]
        for _ in range(length - 1):
            logits, state = generator.step(variables, state, tokens[-1])
            tokens.append(logits.argmax(-1))
        return jnp.stack(tokens, axis=1)


model = Decoder(vocab=20, width=32, depth=1, heads=4)
prompts = {"tokens": jnp.array([[1, 2, 3]])}
variables = jax.jit(model.init)(jax.random.key(0), **prompts)
for search in (Beam(size=4, length_penalty=0.6, end=(0,)), Greedy()):
    texts = jax.jit(lambda variables, search=search: search(Cached(model), variables, prompts, 4, jax.random.key(1)))
    print(type(search).__name__, texts(variables)[0])
# Beam [18 18 18 18]
# Greedy [18 18 18 18]
