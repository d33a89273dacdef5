"""The next tokens of a decoder, scored by a language model too."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.decoding.generator import Generator, Inputs, Step
from txjax.sharding import constrain
from txjax.types import PyTree

Both = tuple[PyTree, PyTree]  # of the decoder, and of the language model


@dataclasses.dataclass(frozen=True)
class Fused(Generator):
    """Step-by-step decoding whose logits are log p(token) of a decoder + weight * log p(token) of a language model.

    Variables and states are pairs: the decoder's, and the language model's. The latter reads `beginning` in the place
    of the prompt, and no other input. Tokens that it doesn't have keep their score.

    Attributes:
      decoder: the decoder's generator.
      language: the language model's.
      beginning: the tokens that begin a text of the language model.
      weight: of its log-probabilities.
    """

    decoder: Generator
    language: Generator
    beginning: tuple[int, ...]
    weight: float

    def prepare(self, variables: Both, inputs: Inputs) -> Both:
        prepared = self.language.prepare(variables[1], self._beginnings(inputs))
        return self.decoder.prepare(variables[0], inputs), prepared

    def start(self, variables: Both, inputs: Inputs, length: int) -> Step:
        logits, state = self.decoder.start(variables[0], inputs, length)
        of_language, language_state = self.language.start(variables[1], self._beginnings(inputs), length)
        return self._add(logits, of_language), (state, language_state)

    def step(self, variables: Both, state: Both, tokens: Int[Array, "B"]) -> Step:
        logits, decoder_state = self.decoder.step(variables[0], state[0], tokens)
        of_language, language_state = self.language.step(variables[1], state[1], tokens)
        return self._add(logits, of_language), (decoder_state, language_state)

    def select(self, state: Both, rows: Int[Array, "B K"]) -> Both:
        return self.decoder.select(state[0], rows), self.language.select(state[1], rows)

    def log_probs(self, logits: Float[Array, "N V"]) -> Float[Array, "N V"]:
        """The scores as they are: their exponentials have no sum of 1."""
        return logits

    def with_decoder(self, make: Callable[[Generator], Generator]) -> Generator:
        return dataclasses.replace(self, decoder=make(self.decoder))

    def _beginnings(self, inputs: Inputs) -> Inputs:
        tokens = jnp.tile(jnp.array(self.beginning, jnp.int32), (len(inputs["tokens"]), 1))
        return {"tokens": constrain(tokens, "batch", "length")}

    def _add(self, logits: Float[Array, "N V"], of_language: Float[Array, "N W"]) -> Float[Array, "N V"]:
        scores = self.decoder.log_probs(logits)
        count = min(scores.shape[1], of_language.shape[1])
        log_probs = jax.nn.log_softmax(of_language.astype(jnp.float32))
        return scores.at[:, :count].add(self.weight * log_probs[:, :count])
