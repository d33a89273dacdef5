"""Questions about a text whose answers are spans of it."""

import dataclasses
import functools
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.loading import disk_cache
from txjax.data.loading.buckets import Lengths
from txjax.data.sources.record_source import Records
from txjax.data.text.sentences import Sentences, SentenceSource
from txjax.data.text.token_cache import BATCH
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError
from txjax.types import config_field, spec

ABSENT = -1  # the token of the end of an answer that there is not


@dataclasses.dataclass
class Answers(Sentences):
    """A question and its context, as a pair of `Sentences`, of each record, and the tokens of its first answer, as in
    SQuAD.

    (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2.) The answer's tokens are those that its characters overlap. The
    first token, the [CLS], is both ends of a question without an answer (Devlin et al. 2019, 4.3). A long pair loses
    tokens as in `Sentences`; if its answer is among them, its weight is 0.

    With `stride` a long context is read in windows that overlap, each an example with the whole question; in a window
    without the answer, or with a part of it, both ends are the [CLS]. `eval.ExtractedAnswers` joins them again.

    An example: as in `Sentences`, but weights float32 [], 1 or 0; start, end int32 [], the first and the last token of
    the answer; context int32 [L], 1 for the tokens of the context.

    Attributes:
      text: the set's features of the question and of the context.
      answer_feature: the set's sequence of answers, each with `text` and `answer_start`, in characters of the context.
      stride: tokens of the context from the start of a window to the start of the next (the authors' code: 128 of 384).
        If None, a context is one window and is cut.
      question_length: with `stride`, a question's tokens; the others are cut.
    """

    text: tuple[str, ...] = describing_field(("question", "context"))
    answer_feature: str = describing_field("answers")
    stride: int | None = config_field(None, at_least=1)
    question_length: int = describing_field(64, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        single = {"weights": spec((), "float32"), "start": spec((), "int32"), "end": spec((), "int32")}
        return super().spec() | single | {"context": spec((self.length,), "int32")}

    def check(self) -> None:
        super().check()
        if len(self.text) != 2:
            raise UserError("data.text", "the features of the question and of the context", self.text)
        features = self.record_split.check()
        answers = records.check_feature("data.answer_feature", self.answer_feature, features, ("Sequence",)).feature
        if missing := {"text", "answer_start"} - set(getattr(answers, "keys", dict)()):
            raise UserError("data.answer_feature", "a sequence of text and answer_start", f"no {min(missing)}")
        self.tokenizer.offsets("")
        if not self.frame().before:
            raise UserError("data.tokenizer", "a token before a question, where none is the answer", self.tokenizer)
        shortest = self.length - self.markers() - self.question_length
        if self.stride is not None and shortest < 1:
            most = self.question_length + shortest - 1
            expected = f"at most {most}, so that a window of data.length = {self.length} has some context"
            raise UserError("data.question_length", expected, self.question_length)
        if self.stride is not None and self.stride > shortest:
            expected = (
                f"at most {shortest}, the context of a window after data.question_length = {self.question_length}"
            )
            raise UserError("data.stride", expected, self.stride)

    def open(self) -> Source:
        self.check()
        return AnswerSource(self)


class AnswerSource(SentenceSource):
    """The questions of a split, by record, or by the window of a record's context."""

    def __init__(self, text: Answers):
        super().__init__(text)
        self._answers = text
        self._ends = open_ends(text)
        questions, contexts = (np.diff(tokens.documents) for tokens in self._tokens)
        self._windows = np.stack([np.arange(len(contexts)), np.zeros_like(contexts)], 1)
        self.fingerprint = f"{self.fingerprint} {text.answer_feature}"
        if text.stride is not None:
            asked = np.minimum(questions, text.question_length)
            room = text.length - text.markers() - asked
            counts = 1 + np.maximum(0, -(-(contexts - room) // text.stride))
            records_of = np.repeat(np.arange(len(counts)), counts)
            numbers = np.arange(len(records_of)) - np.repeat(np.cumsum(counts) - counts, counts)
            self._windows = np.stack([records_of, text.stride * numbers], 1)
            inside = np.minimum(contexts[records_of] - self._windows[:, 1], room[records_of])
            sizes = (asked[records_of] + inside + text.markers()).astype(np.int32)
            self.lengths = (Lengths(sizes, self.lengths[0].axes),)
            self.fingerprint = f"{self.fingerprint} {text.stride} {text.question_length}"

    def sentences(self, index: int) -> list[np.ndarray]:
        if self._answers.stride is None:
            return super().sentences(index)
        record, start = self._windows[index].tolist()
        question = self._tokens[0].text(record)[: self._answers.question_length]
        room = self._answers.length - self._answers.markers() - len(question)
        return [question, self._tokens[1].text(record)[start : start + room]]

    def row(self, sentences: list[np.ndarray]) -> Example:
        first = self._frame.start(1, sentences)
        context = np.zeros(self._answers.length, np.int32)
        context[first : first + len(sentences[1])] = 1
        return super().row(sentences) | {"context": context}

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = super().example(index, epoch, rng)
        record, begin = self._windows[index].tolist()
        context = np.flatnonzero(example["context"])
        start, end = (self._ends[record] - begin).tolist()
        answered = self._ends[record, 1] != ABSENT
        known = answered and start >= 0 and end < len(context)
        start, end = context[[start, end]].tolist() if known else (0, 0)
        has_target = known or not answered or self._answers.stride is not None
        numbers = {"start": start, "end": end}
        return (
            example
            | {"weights": np.asarray(has_target, np.float32)}
            | {key: np.asarray(value, np.int32) for key, value in numbers.items()}
        )

    def window(self, index: int) -> tuple[int, int]:
        """The record of an example, and the token of its context with which the example's begins."""
        record, start = self._windows[index].tolist()
        return record, start

    @functools.cached_property
    def _records(self) -> Records:
        text = self._answers
        return text.record_split.open([text.text[1], text.answer_feature])

    def question(self, record: int) -> "Question":
        """A record's context with the characters of its tokens, and its answers."""
        text = self._answers
        read = self._records[record]
        context = as_string(read[text.text[1]])
        return Question(context, text.tokenizer.offsets(context), [*map(as_string, read[text.answer_feature]["text"])])


class Question(NamedTuple):
    """What an answer is read from, and compared with.

    Attributes:
      context: the text.
      offsets: int [tokens 2], the characters of each of its tokens: the first and the next one.
      answers: the right answers; none if there is no answer.
    """

    context: str
    offsets: np.ndarray
    answers: list[str]

    def span(self, first: int, last: int) -> str:
        """The text of some tokens."""
        return self.context[self.offsets[first, 0] : self.offsets[last, 1]]


def open_ends(text: Answers) -> np.ndarray:
    """The first and the last token of the first answer in each record's context, int32 [N 2], from the cache.

    Raises:
      UserError: an answer that is not in its context; names the record.
    """
    context = text.text[1]
    source = text.record_split.open([context, text.answer_feature])
    made_from = {
        "split": text.split,
        "features": [context, text.answer_feature],
        "records": source.fingerprint,
        "tokenizer": text.tokenizer.fingerprint(),
    }

    def ends(number: int, record: dict) -> tuple[int, int]:
        answers = record[text.answer_feature]
        if not len(answers["text"]):
            return ABSENT, ABSENT
        whole = as_string(record[context])
        answer = as_string(answers["text"][0])
        start = int(answers["answer_start"][0])
        offsets = text.tokenizer.offsets(whole)
        inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < start + len(answer)))
        if whole[start : start + len(answer)] != answer or not len(inside):
            expected = f"answers that are in their contexts in {source.name}"
            raise UserError("data.answer_feature", expected, f"{answer[:40]!r} at {start} in {source.place(number)}")
        return int(inside[0]), int(inside[-1])

    def build(folder: Path) -> None:
        first_and_last = np.zeros((len(source), 2), np.int32)
        with disk_cache.progress(f"answers of {source.name} {text.split}", len(source)) as advance:
            for start in range(0, len(source), BATCH):
                read = source.read(start, min(start + BATCH, len(source)))
                first_and_last[start : start + len(read)] = [
                    ends(number, record) for number, record in enumerate(read, start)
                ]
                advance(len(read))
        np.save(folder / "ends.npy", first_and_last)

    return disk_cache.get_or_build("answers", made_from, build, lambda folder: np.load(folder / "ends.npy"))
