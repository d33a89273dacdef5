"""The language model of another run, as a recogniser uses it."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Sharding

from txjax import tree
from txjax.checkpoint.run_folders import read_run_config
from txjax.checkpoint.run_steps import RunStep, open_step
from txjax.checkpoint.stored_weights import inference_variables
from txjax.data import Tokenizer
from txjax.decoding import Beginnings, Fused, Generator, LanguageModel, generator_for, prompts_for
from txjax.errors import UserError
from txjax.types import PyTree


@dataclasses.dataclass(frozen=True)
class LanguageRun:
    """A run of a causal model of texts.

    Attributes:
      field: the field or flag that names the run, for messages.
      language: what is made of its score.
      at: its step.
      model, tokenizer: its own.
      beginning: the tokens that begin a text.
      end: the tokens that end a text; () if its data have none.
      window: the tokens that it reads, if it has no cache.
    """

    field: str
    language: LanguageModel
    at: RunStep
    model: Any
    tokenizer: Tokenizer
    beginning: tuple[int, ...]
    end: tuple[int, ...]
    window: int

    @classmethod
    def open(cls, field: str, language: LanguageModel, trusted: tuple[str, ...] = ()) -> "LanguageRun":
        """Reads the config of the run and verifies its step; loads no arrays.

        Args:
          trusted: modules outside of txjax that its config may name.

        Raises:
          UserError: no such run or step, damaged files, a run that doesn't predict the next token of texts, or one
            whose tokenizer has no token that begins a text.
        """
        at = open_step(field, language.run)
        run: Any = tree.from_json(read_run_config(at.workdir), trusted, f"{at.workdir}/config.json")
        objective = getattr(run, "objective", run)
        if "targets" not in getattr(objective, "required_keys", ()):
            expected = "a run of a causal model of texts, which predicts the next token"
            raise UserError(field, expected, f"{type(objective).__name__} in {at.workdir}")
        form = prompts_for(run.data, field)
        if not isinstance(form, Beginnings):
            raise UserError(field, "a run of texts alone", f"{type(run.data).__name__} in {at.workdir}")
        beginning = form.tokenizer.roles().beginning
        if beginning is None:
            expected = "a run whose tokenizer has a token that begins or ends a text"
            raise UserError(field, expected, f"{type(form.tokenizer).__name__} in {at.workdir}")
        (window,) = run.data.spec()["tokens"].shape
        return cls(field, language, at, run.model, form.tokenizer, (beginning,), form.end, window)

    def check_tokens(self, tokenizer: Tokenizer, end: tuple[int, ...]) -> None:
        """Checks that its tokens are those of a recogniser.

        Args:
          end: the tokens that end the recogniser's texts.

        Raises:
          UserError: they are others, or no text of the run's data ends with those.
        """
        hint = "Rescoring(), which reads texts, has no such need"
        if tokenizer.vocabulary_digest() != self.tokenizer.vocabulary_digest():
            expected = f"a run with the recogniser's vocabulary, {_describe(tokenizer)}"
            raise UserError(self.field, expected, _describe(self.tokenizer), hint=hint)
        if not set(end) <= set(self.end):
            expected = f"a run whose texts end with {_names(tokenizer, end)}, as the recogniser's do"
            data_hint = f"its data have a field end (and start), and {hint}"
            raise UserError(self.field, expected, _names(tokenizer, self.end) or "no such token", hint=data_hint)

    def check_letters(self, data: Any) -> None:
        """Raises UserError if its tokenizer can't encode a letter of a recogniser's texts, which `data` have."""
        tokens = range(data.tokenizer.vocab())
        letters = "".join(sorted(set(normal_form(data, "".join(plain_text(data, [i]) for i in tokens) * 2))))
        try:
            self.tokenizer.encode(letters)
        except UserError as error:
            expected = "a run whose tokenizer has the letters of the recogniser's"
            raise UserError(self.field, expected, error.got, hint=error.hint) from None

    def check_length(self, length: int) -> None:
        """Raises UserError if the model has fewer learned positions than a text of this length needs."""
        most = getattr(getattr(self.model, "positions", None), "max_length", None)
        if most is not None and length > most:
            raise UserError(self.field, f"a run of a model with at least {length} positions", most)

    def variables(self, sharding: Sharding) -> PyTree:
        """Loads the model's variables; each array has this sharding."""
        return inference_variables(self.at.store, self.at.step, sharding)

    def fuse(self, decoder: Generator, variables: PyTree, rows: int) -> Fused:
        """The generator of a decoder whose tokens have the score of this model too.

        Args:
          variables: this model's.
          rows: the number of texts.
        """
        beginnings: Any = {"tokens": jax.ShapeDtypeStruct((rows, len(self.beginning)), jnp.int32)}
        language = generator_for(self.model, variables, beginnings, self.window)
        return Fused(decoder.model, decoder, language, self.beginning, self.language.weight)

    @property
    def description(self) -> str:
        """The run, its step, its digest and the numbers that it is used with, in one line."""
        numbers = {field.name: getattr(self.language, field.name) for field in dataclasses.fields(self.language)}
        parts = [f"{name} {value}" for name, value in numbers.items() if name != "run"]
        run = f"{self.at.workdir.resolve()} at step {self.at.step}, digest {self.at.digest}"
        return f"{type(self.language).__name__} by {run}, {', '.join(parts)}"


def plain_text(data: Any, ids: Iterable[int]) -> str:
    """The text of some tokens of a recogniser without special ones and incomplete letters."""
    specials = data.tokenizer.special_ids() or frozenset()
    return str(data.tokenizer.decode(int(i) for i in ids if int(i) not in specials)).replace("\ufffd", "")


def normal_form(data: Any, text: str) -> str:
    """The text in the form of the normalisation of a recogniser's data, if they have one."""
    normalize = getattr(data, "normalization", None)
    return text if normalize is None else str(normalize(text))


def _describe(tokenizer: Tokenizer) -> str:
    return f"{tokenizer.vocab()} tokens of {type(tokenizer).__name__}"


def _names(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    names = {token: name for name, token in tokenizer.special_names().items()}
    return " or ".join(names.get(token, str(token)) for token in tokens)
