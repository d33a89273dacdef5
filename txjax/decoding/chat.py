"""Conversations of several turns: those before stay in the cache, and each turn reads its own tokens alone."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int32

from txjax.data import Turn
from txjax.decoding.generator import Cached, Inputs, Step
from txjax.decoding.pictured_prompts import PicturedPrompt, PicturedPrompts, check_markers
from txjax.decoding.prompts import until
from txjax.decoding.sampling import Progress, Sampling, tokens_of
from txjax.errors import UserError
from txjax.types import PyTree


@dataclasses.dataclass(frozen=True)
class Conversation:
    """What was asked and answered.

    Attributes:
      turns: with their answers.
      tokens: of all turns, which the cache has.
      images: how many the turns have.
      cache: the generator's state. If None, nothing was read yet.
    """

    turns: tuple[Turn, ...] = ()
    tokens: tuple[int, ...] = ()
    images: int = 0
    cache: PyTree = None


@dataclasses.dataclass(frozen=True)
class Chat:
    """A model that answers the questions of a conversation, each with all turns before it in its cache.

    The tokens are those of a prompt of the whole conversation.

    Attributes:
      form: of the prompts, with a template whose answers have an end.
      generator: the model with its cache.
      search: how the tokens of an answer are drawn. The end is the form's.
      length: tokens of an answer at most.
      read_inputs: what the model reads of a batch (`objectives.model_inputs`).
    """

    form: PicturedPrompts
    generator: Cached
    search: Sampling
    length: int
    read_inputs: Callable[[Inputs], Inputs]

    def __post_init__(self) -> None:
        data = self.form.conversations
        if data.template.end_token(data.tokenizer) is None:
            expected = "a template of several turns, such as VicunaTemplate, for --chat"
            raise UserError("config.data.template", expected, type(data.template).__name__)

    @property
    def window(self) -> int:
        """The tokens of a conversation before its last answer, at most."""
        return self.form.conversations.length - 1

    def ask(
        self, variables: PyTree, conversation: Conversation, prompt: PicturedPrompt, key: jax.Array
    ) -> Conversation:
        """The conversation with one turn more: the question and the answer of the model.

        Args:
          key: of what is drawn.

        Raises:
          UserError: the conversation becomes too long, has too many images, or an image can't be read.
        """
        data = self.form.conversations
        check_markers(prompt, data.most_images - conversation.images, "--image")
        tokens = self._question_tokens(conversation, prompt)
        size = len(conversation.tokens) + len(tokens)
        if size > self.window:
            expected = f"a conversation of at most {self.window} tokens, as data.length has place for"
            raise UserError("--chat", expected, size, hint="/forget begins a new one")
        images = self.form.images([prompt], "--image") if prompt.images else {}
        cache = conversation.cache
        for part in [tokens] if images else parts_of(tokens):
            inputs = self.read_inputs({"tokens": part[None], **images})
            read = self._start if cache is None else functools.partial(self._resume, cache=cache)
            logits, cache = read(variables, inputs=inputs)
        before = np.array([*conversation.tokens, *tokens], np.int32)
        penalises = self.search.repetition_penalty is not None
        used_tokens = tokens_of({"tokens": before[None]}, logits.shape[-1]) if penalises else None
        progress = Progress(jnp.int32(0), logits, cache, jnp.zeros(1, bool), used_tokens)
        progress, written = self._write(variables, progress, key)
        answer = np.asarray(written)[0, : int(progress.count)]
        text = self.form.text(prompt, until(answer, self.search.end))
        return Conversation(
            turns=(*conversation.turns, prompt.turn()._replace(answer=text)),
            tokens=(*before.tolist(), *answer.tolist()),
            images=conversation.images + len(prompt.images),
            cache=progress.state,
        )

    @functools.cached_property
    def _start(self) -> Any:
        """Reads the first question, with space for all that may follow."""

        def start(variables: PyTree, inputs: Inputs) -> Step:
            space = self.window + self.length - inputs["tokens"].shape[1]
            return self.generator.start(variables, inputs, space)

        return jax.jit(start)

    @functools.cached_property
    def _resume(self) -> Any:
        """Reads a question, or a part of one. It is compiled for each length, of which parts have few (`parts_of`)."""

        def resume(variables: PyTree, cache: PyTree, inputs: Inputs) -> Step:
            return self.generator.resume(variables, cache, inputs)

        return jax.jit(resume, donate_argnames="cache")

    @functools.cached_property
    def _write(self) -> Any:
        """Writes an answer."""

        def write(variables: PyTree, progress: Progress, key: jax.Array) -> tuple[Progress, jax.Array]:
            return self.search.extend(self.generator, variables, progress, self.length, key)

        return jax.jit(write, donate_argnums=1)

    def _question_tokens(self, conversation: Conversation, prompt: PicturedPrompt) -> np.ndarray:
        """The tokens of a conversation's next turn up to its answer, int32 [P]: those that the cache hasn't yet.

        The end of the answer before is the first of them, if that was cut before its end.
        """
        data = self.form.conversations
        encoder = data.encoder()
        row = encoder.encode([[*conversation.turns, prompt.turn()]])[0]
        row = row.with_patches(encoder.image_token, data.image_tokens)
        if not conversation.turns:
            return row.ids
        end = data.template.end_token(data.tokenizer)
        last = int(np.flatnonzero(row.ids == end)[-1])
        return row.ids[last + (conversation.tokens[-1] == end) :]


def parts_of(tokens: Int32[np.ndarray, "P"]) -> list[np.ndarray]:
    """The tokens in parts whose lengths are powers of two, the longest first, so that few programs read all texts."""
    sizes = [1 << bit for bit in reversed(range(len(tokens).bit_length())) if len(tokens) >> bit & 1]
    return np.split(tokens, np.cumsum(sizes)[:-1])
