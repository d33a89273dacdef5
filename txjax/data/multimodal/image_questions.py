"""Images, each with a question whose answer is one of a few: visual question answering as classification."""

import dataclasses
import hashlib

import jax
import numpy as np
from jaxtyping import Int64

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.images.image_data import ImageData
from txjax.data.images.image_reader import ImageReader
from txjax.data.images.image_records import ImageRecords
from txjax.data.loading.usable_records import UsableRecords
from txjax.data.multimodal.question_tokens import open_questions
from txjax.data.multimodal.questions import MakeQuestion, Questions, TemplateQuestions
from txjax.data.text.framed_rows import FramedRows
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import config_field, spec


def _bytes() -> Bytes:
    return Bytes(specials=("[CLS]", "[SEP]"))


@dataclasses.dataclass
class ImageQuestions(ImageData):
    """An image of each record, a question about it, and the class of its answer.

    So VQA is learned by encoders (Lu et al. 2019, 3.2), and a statement is true or false, where its class is the
    answer: `TemplateQuestions("{sentence}", "{label}")`.

    An example: image float32 [H W C], see `ImageData`; tokens int32 [L], the question with the special tokens that the
    tokenizer puts around a text; segments int32 [L], 1, and 0 for the padding at the end; label int32 [], the number of
    the answer in `answers`; weights float32 [], 1, or 0 if the image was left out.

    Attributes:
      questions: what makes the question and the answer of a record.
      answers: the answers that are classes, in the order of their numbers.
      length: tokens in an example, L.
      tokenizer: the tokenizer; it must have [CLS] and [SEP], or say itself what stands around texts.
      too_long: what happens to a question that is longer, with a count in the log: "refuse" (an error), "drop" (it is
        left out), "cut" (it loses its last tokens).
      rounds: how many questions there are about each record. They take turns by the epochs: in round r, record n is
        asked what its number n + r gives, so that questions that depend on the number change.
      unusable: what happens to a record whose answer is not in `answers`, or whose question is empty: "refuse" is an
        error that names it; "skip" leaves it out, with a count in the log.
    """

    questions: Questions = describing_field(factory=TemplateQuestions)
    answers: tuple[str, ...] = describing_field(())
    length: int = describing_field(64, at_least=1)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    too_long: str = config_field("refuse", choices=("refuse", "drop", "cut"))
    rounds: int = config_field(1, at_least=1)
    unusable: str = config_field("refuse", choices=("refuse", "skip"))

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.answers)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        text = {key: spec((self.length,), "int32") for key in ("tokens", "segments")}
        scalars = {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")}
        return scalars | text | {"image": spec(tuple(self.shape), "float32")}

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def class_names(self) -> tuple[str, ...]:
        return tuple(self.answers)

    def rows(self) -> FramedRows:
        """What makes rows of questions."""
        return FramedRows(self.tokenizer, self.length)

    def check(self) -> None:
        self.rows().check()
        if len(set(self.answers)) < max(len(self.answers), 2):
            raise UserError("data.answers", "two answers or more, each once", self.answers)
        self.read_questions()

    def read_questions(self) -> tuple[tuple[str, ...], MakeQuestion]:
        """The features that the questions read, and what makes the question of a record.

        Raises:
          UserError: the set lacks a feature, or a setting doesn't fit its images.
        """
        features = self.check_images()
        try:
            return self.questions.features(features), self.questions.function(features)
        except UserError as error:
            raise error.with_path("data.questions", "data.turns.questions") from None

    def open(self) -> Source:
        self.check()
        source = QuestionSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


class QuestionSource:
    """The questions of a split that are usable and short enough, in the order of its records."""

    def __init__(self, data: ImageQuestions):
        self._data = data
        where = data.record_split
        names, make = data.read_questions()
        texts = where.open(names)
        self._questions = open_questions(texts, data.split, data.questions, make, data.tokenizer, data.rounds)
        image_records = ImageRecords(where, data.image_feature, [], data.corrupt)
        title = where.title
        usable = UsableRecords(title, data.unusable, data.too_long, image_records.place, "questions", "tokens")
        number_of = {answer: number for number, answer in enumerate(data.answers)}
        labels = np.array([number_of.get(answer, -1) for answer in self._questions.answers], np.int32)
        self._labels = labels.reshape(data.rounds, -1)
        sizes = self._questions.sizes.reshape(data.rounds, -1)
        shortest = sizes.min(0)
        sizes = sizes.max(0)
        answered = usable.without_unusable(np.arange(len(sizes)), self._faults(shortest))
        self._rows = data.rows()
        self._kept = usable.without_long(
            answered,
            sizes <= self._rows.room,
            f"{self._rows.room} tokens, which data.length = {data.length} leaves beside the markers",
            lambda number: f"{sizes[number]} tokens",
        )
        self._reader = ImageReader(data, image_records, len(self._kept))
        parts = image_records.fingerprint, self._questions.fingerprint, self._rows.frame, tuple(data.answers)
        content = repr(parts).encode() + self._kept.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._kept)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        number = int(self._kept[index])
        turn = epoch % self._data.rounds
        image, _ = self._reader.read(number, self._data.transforms, rng)
        pixels = np.zeros(self._data.shape, np.float32) if image is None else image
        scalars = {"label": self._labels[turn, number], "weights": np.array(image is not None, np.float32)}
        return {"image": pixels} | scalars | self._rows.row(self._questions.ids(turn * self._labels.shape[1] + number))

    def _faults(self, shortest: Int64[np.ndarray, "N"]) -> dict[int, str]:
        """Why records are no examples, by their numbers.

        Args:
          shortest: the tokens of the shortest question about each.
        """
        answers = self._questions.answers
        records = self._labels.shape[1]
        unknown = {number: answers[turn * records + number] for turn, number in np.argwhere(self._labels < 0).tolist()}
        faults = {number: f"the answer {answer!r} is not in data.answers" for number, answer in unknown.items()}
        return faults | dict.fromkeys(np.flatnonzero(shortest == 0).tolist(), "an empty question")
