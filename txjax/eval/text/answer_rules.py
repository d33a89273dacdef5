"""Which answer is predicted, from the likelihoods of all answers."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from txjax.data import PromptedChoices
from txjax.data.text.prompted_choices import PromptSource
from txjax.errors import UserError


class Likelihoods(NamedTuple):
    """The answers of N prompts, by the model.

    Attributes:
      nats: float64 [N O], log p(answer | prompt), the sum over the answer's tokens.
      tokens: int32 [N O], the number of these tokens.
      sizes: int64 [1 O], the UTF-8 bytes of each answer, without the whitespace before it.
    """

    nats: Float[np.ndarray, "N O"]
    tokens: Int[np.ndarray, "N O"]
    sizes: Int[np.ndarray, "1 O"]


@dataclasses.dataclass
class AnswerRule:
    """Scores of the answers; the one with the largest is predicted."""

    def check(self, data: PromptedChoices) -> None:
        """Raises UserError, of the field `eval.rule`, if the rule doesn't suit the data."""

    def references(self, data: PromptedChoices, shots: int, seed: int) -> tuple[PromptSource, ...]:
        """Other prompts whose answers the scores depend on: one, or as many as `data.prompts(shots, seed)` has."""
        return ()

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        """The scores, from the answers after the prompts and after the `references`."""
        raise NotImplementedError


@dataclasses.dataclass
class Likeliest(AnswerRule):
    """log p(answer | prompt), the sum over the answer's tokens."""

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        return answers.nats


@dataclasses.dataclass
class PerToken(AnswerRule):
    """log p(answer | prompt) by the number of the answer's tokens (Brown et al. 2020, 2.4)."""

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        return answers.nats / answers.tokens


@dataclasses.dataclass
class PerByte(AnswerRule):
    """log p(answer | prompt) by the number of the answer's UTF-8 bytes, whatever the tokenizer."""

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        return answers.nats / np.maximum(answers.sizes, 1)


@dataclasses.dataclass
class DomainPMI(AnswerRule):
    """log p(answer | prompt) - log p(answer | premise), PMI_DC of Holtzman et al. 2021.

    An answer that is likely after the premise alone, as it is frequent in the domain, gains nothing by that.

    Attributes:
      premise: a text of the domain that says nothing of the prompt, such as "Sentiment:"; it stands alone, without
        demonstrations, with the template's whitespace before the answer. If None, the last line of the template's words
        before the label.
    """

    premise: str | None = None

    def check(self, data: PromptedChoices) -> None:
        if not self._words(data):
            expected = "words, such as 'Sentiment:', since data.template has none just before the label"
            raise UserError("eval.rule.premise", expected, self.premise)

    def references(self, data: PromptedChoices, shots: int, seed: int) -> tuple[PromptSource, ...]:
        return (data.premise(self._words(data)),)

    def _words(self, data: PromptedChoices) -> str:
        return data.cue() if self.premise is None else self.premise.strip()

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        return answers.nats - references[0].nats


@dataclasses.dataclass
class Contextual(AnswerRule):
    """p(answer | prompt) / p(answer | the prompt without content) (Zhao et al. 2021).

    Both are shares among the answers, W = diag(p)^-1 in the paper; the lower one is the mean over the blanks, after the
    same demonstrations.

    Attributes:
      blanks: texts without content, which stand in place of the prompt's own texts.
    """

    blanks: tuple[str, ...] = ("N/A", "[MASK]", "")

    def check(self, data: PromptedChoices) -> None:
        if not self.blanks:
            raise UserError("eval.rule.blanks", "at least one text", self.blanks)

    def references(self, data: PromptedChoices, shots: int, seed: int) -> tuple[PromptSource, ...]:
        return tuple(data.prompts(shots, seed, blank) for blank in self.blanks)

    def scores(self, answers: Likelihoods, references: Sequence[Likelihoods]) -> Float[np.ndarray, "N O"]:
        conditional, *blank = (
            likelihoods.nats - np.logaddexp.reduce(likelihoods.nats, -1, keepdims=True)
            for likelihoods in (answers, *references)
        )
        return conditional - np.logaddexp.reduce(blank, 0)  # a sum instead of the mean, the same for all answers
