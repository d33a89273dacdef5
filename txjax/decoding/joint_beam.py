"""Beam search by the scores of an attention decoder and of CTC on its encoder's frames."""

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.decoding.beam import Beam, Hypotheses
from txjax.decoding.ctc_prefix_scores import FrameLogProbs, PrefixPaths
from txjax.decoding.generator import Cached, Generator, Inputs, Step, last_logits, select_rows
from txjax.errors import UserError
from txjax.types import PyTree, config_field

State = tuple[PyTree, FrameLogProbs, PrefixPaths]  # the decoder's cache, the frames, and the texts so far


@dataclasses.dataclass
class JointBeam(Beam):
    """Beam search of a decoder of speech, each token scored by CTC, too (Watanabe et al. 2017, algorithms 1 and 2).

    The score of a text is ctc_weight * log p_ctc(text) + (1 - ctc_weight) * log p_decoder(text), before the length
    penalty. Of a text that has no end yet, p_ctc is the probability of all texts that begin with it. A text that
    has no path in the frames has a score of about ctc_weight * -1e30.

    The model is a `SpeechTransformer` with a `ctc_head`, trained by `JointCTC`.

    Attributes:
      ctc_weight: of CTC; with 0 the texts and scores are those of `Beam`.
      candidates: the decoder's likeliest tokens, by which each text is extended besides its end (the pre-beam of
        ESPnet). If None, twice the size.
      blank: the class of the blank; a negative one counts from the last. If None, that of the run's objective.
    """

    ctc_weight: float = config_field(0.3, at_least=0, at_most=1)
    candidates: int | None = config_field(None, at_least=1)
    blank: int | None = None

    def for_run(self, field: str, model: Any, objective: Any) -> Self:
        if getattr(model, "ctc_head", None) is None:
            expected = f"a model with a ctc_head, for {type(self).__name__}"
            hint = "a SpeechTransformer has one if config.model.ctc_head is set, and the objective JointCTC trains it"
            raise UserError(field, expected, type(model).__name__, hint=hint)
        if not hasattr(objective, "blank"):
            expected = f"an objective that trains config.model.ctc_head, for {type(self).__name__}"
            raise UserError(field, expected, type(objective).__name__, hint="JointCTC does")
        return dataclasses.replace(self, blank=objective.blank) if self.blank is None else self

    def hypotheses(self, generator: Generator, variables: PyTree, inputs: Inputs, length: int) -> Hypotheses:
        blank = -1 if self.blank is None else self.blank
        candidates = self.candidates or 2 * self.size

        def joint(decoder: Generator) -> Generator:
            return JointGenerator(decoder.model, self.ctc_weight, candidates, blank, self.end)

        return super().hypotheses(generator.with_decoder(joint), variables, inputs, length)


@dataclasses.dataclass(frozen=True)
class JointGenerator(Cached):
    """Step-by-step decoding of a `SpeechTransformer`, whose logits are the joint scores of next tokens.

    Attributes:
      ctc_weight: of CTC.
      candidates: the number of the decoder's likeliest tokens that have a score; others have -inf.
      blank: the class of the blank.
      end: the tokens that end a text, which have a score, too.
    """

    ctc_weight: float
    candidates: int
    blank: int
    end: tuple[int, ...]

    def start(self, variables: PyTree, inputs: Inputs, length: int) -> Step:
        (logits, text), cache = self.read_prompts(variables, inputs, length, method="frames_and_text")
        of_decoder = last_logits(text)
        count = jnp.full(len(logits), inputs["features"].shape[1], jnp.int32)
        lengths = self.model.encoder.output_length(inputs.get("features_length", count))
        frames = FrameLogProbs.of(logits, lengths, self.blank, of_decoder.shape[1])
        paths = frames.start()
        return self._score(of_decoder, frames, paths), (cache, frames, paths)

    def step(self, variables: PyTree, state: State, tokens: Int[Array, "B"]) -> Step:
        cache, frames, paths = state
        paths = frames.extend(paths, tokens)
        of_decoder, cache = super().step(variables, cache, tokens)
        return self._score(of_decoder, frames, paths), (cache, frames, paths)

    def select(self, state: State, rows: Int[Array, "B K"]) -> State:
        """Frames are those of the example, and stay."""
        cache, frames, paths = state
        chosen = jax.tree.map(lambda x: select_rows(x, rows, ("batch", *(None,) * (x.ndim - 1))), paths)
        return super().select(cache, rows), frames, chosen

    def log_probs(self, logits: Float[Array, "N V"]) -> Float[Array, "N V"]:
        """The joint scores as they are: their exponentials have no sum of 1."""
        return logits

    def _score(self, logits: Float[Array, "N V"], frames: FrameLogProbs, paths: PrefixPaths) -> Float[Array, "N V"]:
        """What each next token adds to the score of its text."""
        of_decoder = jax.nn.log_softmax(logits.astype(jnp.float32))
        _, candidates = jax.lax.top_k(of_decoder, min(self.candidates, of_decoder.shape[1]))
        ends = jnp.tile(jnp.array(self.end, jnp.int32), (len(logits), 1))
        tokens = jnp.concatenate([candidates, ends], axis=1)
        of_ctc = jnp.where(jnp.isin(tokens, ends[:1]), paths.total[:, -1:], frames.score(paths, tokens))
        added = (1 - self.ctc_weight) * jnp.take_along_axis(of_decoder, tokens, axis=1)
        added += self.ctc_weight * jnp.minimum(of_ctc - paths.score[:, None], 0.0)
        rows = jnp.arange(len(logits))[:, None]
        return jnp.full_like(of_decoder, -jnp.inf).at[rows, tokens].set(added)
