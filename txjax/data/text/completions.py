"""A prompt and its answer as one text, for decoders that learn the answer alone."""

import dataclasses
import hashlib
import logging

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.text.templates import Template
from txjax.data.text.token_cache import open_tokens
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer, special_or_none
from txjax.errors import UserError
from txjax.types import config_field, spec

log = logging.getLogger("txjax")


def _bytes() -> Bytes:
    return Bytes(specials=("[END]",))


@dataclasses.dataclass
class Completions(RecordDataset):
    """The prompt of each record and the answer that continues it; the targets of the prompt have no weight.

    An example: tokens int32 [L], prompt and answer; targets int32 [L], the next tokens, at last the end token; segments
    int32 [L], 1, and 0 for the padding at the end; weights float32 [L], 1 where the target is the answer's or the end
    token, else 0.

    A record with an empty prompt or answer is left out; their number is logged.

    Attributes:
      prompt, answer: format strings over the set's features, as in `Pairs`. They are encoded separately.
      length: positions L.
      tokenizer: the tokenizer. What it puts before a text stands before a prompt, as where the model generates.
      end: name of the special token that ends an answer. If None, the tokenizer's own (`Tokenizer.roles`).
      too_long: what happens to a record with more tokens: "drop" (it is left out, with a count in the log), "refuse"
        (an error).
    """

    prompt: str = describing_field("{prompt}")
    answer: str = describing_field("{answer}")
    length: int = describing_field(128, at_least=2)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    end: str | None = None
    too_long: str = config_field("refuse", choices=("drop", "refuse"))

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = {key: spec((self.length,), "int32") for key in ("tokens", "targets", "segments")}
        return {"id": spec((), "int32"), "weights": spec((self.length,), "float32")} | specs

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        self.tokenizer.check()
        self.ends()
        self.templates()

    def ends(self) -> tuple[int, ...]:
        """The tokens that end an answer: of data the first one, of generated texts any.

        Raises:
          UserError: the tokenizer has none, or not that of the name.
        """
        ends = special_or_none(self.tokenizer, self.end) or self.tokenizer.roles().eos
        if not ends:
            expected = "the name of a special token, since the tokenizer names none that ends a text"
            raise UserError("data.end", expected, None)
        return ends

    def templates(self) -> tuple[Template, Template]:
        """The texts of the prompt and of the answer. Raises UserError if the set has no such features."""
        features = self.record_split.check()
        return Template(self.prompt, features, "data.prompt"), Template(self.answer, features, "data.answer")

    def open(self) -> Source:
        self.check()
        return CompletionSource(self)


class CompletionSource:
    """The prompts and answers of a split, in the order of its records."""

    def __init__(self, data: Completions):
        self._data = data
        self._end = data.ends()[0]
        start = data.tokenizer.opening()
        self._prompts, self._answers = (
            open_tokens(data.record_split, template, data.tokenizer, before)
            for template, before in zip(data.templates(), (start, ()), strict=True)
        )
        self._kept = _kept_records(data, *(np.diff(tokens.documents) for tokens in (self._prompts, self._answers)))
        made_from = (
            repr([self._prompts.fingerprint, self._answers.fingerprint, self._end]).encode() + self._kept.tobytes()
        )
        self.fingerprint = hashlib.blake2b(made_from, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._kept)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        record = int(self._kept[index])
        length = self._data.length
        prompt = self._prompts.text(record)
        answer = self._answers.text(record)
        text = np.concatenate([prompt, answer, [self._end]], dtype=np.int32)
        size = len(text) - 1
        first = len(prompt) - 1
        example = {key: np.zeros(length, np.int32) for key in ("tokens", "targets", "segments")}
        example["weights"] = np.zeros(length, np.float32)
        example["tokens"][:size] = text[:-1]
        example["targets"][:size] = text[1:]
        example["segments"][:size] = 1
        example["weights"][first:size] = 1
        return example


def _kept_records(data: Completions, prompts: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """The numbers of the records that are examples, by the tokens of their texts. Logs how many are left out."""
    empty = (prompts == 0) | (answers == 0)
    sizes = prompts + answers
    long = ~empty & (sizes > data.length)
    where = data.record_split.title
    if long.any() and data.too_long == "refuse":
        expected = f"at least {sizes[~empty].max()}, the longest prompt with its answer in {where}"
        raise UserError("data.length", expected, data.length, hint='or leave longer ones out by too_long = "drop"')
    if empty.any() or long.any():
        log.warning("%s: left out: %d empty, %d longer than %d", where, empty.sum(), long.sum(), data.length)
    kept = np.flatnonzero(~empty & ~long)
    if not len(kept):
        raise UserError("data", f"a prompt with an answer that fit {data.length} tokens", f"none in {where}")
    return kept
