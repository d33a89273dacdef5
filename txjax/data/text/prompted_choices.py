"""Labelled texts as prompts after demonstrations, each continued by the names of all classes."""

import dataclasses
import functools
import hashlib
import string
from collections.abc import Sequence
from typing import ClassVar

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, describing_field
from txjax.data.loading.buckets import Bucketed, Lengths, check_buckets
from txjax.data.text.demonstrations import WrittenRecords, gap_before
from txjax.data.text.labelled_text import LabelledText
from txjax.data.text.prompt_rows import PromptEncoder, Row
from txjax.data.text.templates import Template
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer, special_or_none
from txjax.errors import UserError
from txjax.types import config_field, spec

_ROWS = ("choice_tokens", "choice_segments", "choice_types")


@dataclasses.dataclass
class PromptedChoices(RecordDataset):
    """A labelled text as a prompt, continued by the name of each class (Brown et al. 2020, 2.4).

    The prompt is the template up to its last feature, the label; the whitespace before that belongs to the answer.
    `eval.Prompted` puts demonstrations in front: other records with their answers, written by the whole template.
    Prompt and answer are encoded as one text, whose tokens after as many as the prompt alone has are the answer's.

    An example: choice_tokens, choice_segments, choice_types int32 [O L], a row for each class: the prompt (type 0), the
    answer (type 1), padding (segment 0); label int32 []; weights float32 [], 1, or 0 for a record whose label is -1.

    Attributes:
      template: a format string over the set's features: texts as they are, numbers by their format, at last the label.
        What follows the label stands behind the answers of demonstrations.
      label: the set's label, a class.
      classes: the number of classes, O.
      answers: the text of each class. If (), the set's names.
      demonstrations: the split of the demonstrations.
      separator: behind each demonstration.
      length: positions in a row. A prompt that is longer loses its first demonstrations, with a count in the log.
      tokenizer: the tokenizer.
      start: the name of a special token before everything. If None, what the tokenizer puts before a text.
      too_long: what happens to a prompt that is too long without demonstrations: "refuse" (an error), "cut" (it loses
        its first tokens, with a count in the log).
      buckets: other lengths, below `length`, that a batch may have: it is padded to the shortest that fits its longest
        row. The program is compiled once for each. () always pads to `length`.
    """

    template: str = "{text}\n{label}"
    label: str = describing_field("label")
    classes: int = config_field(2, at_least=2)
    answers: tuple[str, ...] = ()
    demonstrations: str = "train"
    separator: str = "\n\n"
    length: int = config_field(256, at_least=2)
    tokenizer: Tokenizer = describing_field(factory=Bytes)
    start: str | None = None
    too_long: str = config_field("refuse", choices=("refuse", "cut"))
    buckets: tuple[int, ...] = ()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        rows = {key: spec((self.classes, self.length), "int32") for key in _ROWS}
        return {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")} | rows

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def class_names(self) -> tuple[str, ...]:
        return self.answers or tuple(self.record_split.check()[self.label].names)

    def class_features(self) -> tuple[str, ...]:
        return (self.label,)

    def check(self) -> None:
        check_buckets(self.buckets, self.prompt_length(), sort_batches=1)
        self.tokenizer.check()
        if self.start is not None:
            self.tokenizer.special(self.start)
        features = self.record_split.check()
        label = records.check_feature("data.label", self.label, features, ("ClassLabel",))
        if label.num_classes != self.classes:
            raise UserError(
                "data.classes", f"the {label.num_classes} classes of {self.record_split.label}", self.classes
            )
        if self.answers and len(self.answers) != self.classes:
            raise UserError("data.answers", f"one for each of the {self.classes} classes", self.answers)
        self.form()

    def check_demonstrations(self) -> None:
        """Raises UserError if the split of the demonstrations is missing."""
        try:
            dataclasses.replace(self.record_split, split=self.demonstrations).check()
        except UserError as error:
            raise error.with_path("data.demonstrations", "data.split") from None

    def form(self) -> Template:
        """The template. Raises UserError if it doesn't suit the set, or doesn't end with the label."""
        form = Template(self.template, self.record_split.check(), "data.template")
        fields = [name for _, name, _, _ in string.Formatter().parse(self.template) if name is not None]
        if len(fields) < 2 or self.label in fields[:-1] or fields[-1] != self.label:
            expected = f"other features, then {{{self.label}}}, which is the answer"
            raise UserError("data.template", expected, self.template)
        return form

    def prompt_length(self) -> int:
        """The positions that a prompt has to fit into."""
        return self.length

    def open(self) -> "PromptSource":
        self.check()
        return self.prompts()

    def prompts(self, shots: int = 0, seed: int = 0, blank: str | None = None) -> "PromptSource":
        """The prompts of all records, each after its own draw of `shots` demonstrations.

        Args:
          seed: of the draws (`WrittenRecords.draw`).
          blank: a text in place of the prompts' own texts. If None, their own.
        """
        queries = self._written_records(self.split)
        if not (queries.labels >= 0).any():
            raise UserError("data.split", "a split with labelled records", self.split)
        features = self.record_split.check()
        texts = [name for name in self.form().names if type(features[name]).__name__ == "Text"]
        blanks = None if blank is None else dict.fromkeys(texts, blank)
        blocks = [[queries.prompt(number, blanks)] for number in range(len(queries))]
        if shots:
            others = self._written_records(self.demonstrations)
            shown = functools.cache(others.demonstration)
            blocks = [
                [*(shown(i) for i in others.draw(shots, seed, queries, number)), *prompt]
                for number, prompt in enumerate(blocks)
            ]
        return self.prompt_source(blocks, queries.labels)

    def premise(self, text: str) -> "PromptSource":
        """One example: a text in place of the prompt."""
        return self.prompt_source([[text.strip()]], np.zeros(1, np.int64))

    def cue(self) -> str:
        """The last line of the template's words before the label, such as "Sentiment:"; may be empty."""
        return self.form().words_before(self.label).strip().rpartition("\n")[2]

    def encoder(self) -> PromptEncoder:
        """What makes rows of tokens of the prompts."""
        return PromptEncoder(
            tokenizer=self.tokenizer,
            start=special_or_none(self.tokenizer, self.start) or self.tokenizer.opening(),
            gap=gap_before(self.form(), self.label),
            answers=self.class_names(),
            separator=self.separator,
            length=self.prompt_length(),
            too_long=self.too_long,
        )

    def prompt_source(self, prompts: Sequence[Sequence[str]], labels: np.ndarray) -> "PromptSource":
        """The examples of some prompts, by their blocks, and of the classes that are right."""
        return PromptSource(self, prompts, labels)

    def _written_records(self, split: str) -> WrittenRecords:
        labelled = LabelledText(
            self.name,
            split,
            self.data_dir,
            source=self.source,
            label=self.label,
            classes=self.classes,
        )
        return WrittenRecords(labelled, self.form(), self.class_names())


class PromptSource(Bucketed):
    """Prompts with all answers, by index.

    Attributes:
      longest_answer: the most tokens that an answer has.
    """

    cut: ClassVar[dict[str, int]] = dict.fromkeys(_ROWS, 1)  # the axes that buckets cut, by key

    def __init__(self, data: PromptedChoices, prompts: Sequence[Sequence[str]], labels: np.ndarray):
        """
        Args:
          prompts: the blocks of each: demonstrations, and at last the query.
          labels: int [N], the class of each; -1 if it is not known.
        """
        self._data = data
        self._labels = labels.astype(np.int32)
        encoder = data.encoder()
        rows = encoder.fitting(prompts, data.record_split.title)
        self._tokens = np.concatenate([row.ids for row in rows])
        self._answers = np.array([row.answer for row in rows])
        self._ends = np.cumsum([len(row.ids) for row in rows])
        self.longest_answer = max(len(row.ids) - row.answer for row in rows)
        sizes = [encoder.size(rows[first : first + data.classes]) for first in range(0, len(rows), data.classes)]
        self.lengths = (Lengths(np.array(sizes, np.int32), self.cut),)
        self.buckets = tuple((size,) for size in (*data.buckets, data.prompt_length()))
        self.sort_batches = 1
        made_from = b"".join(x.tobytes() for x in (self._tokens, self._answers, self._ends, self._labels))
        self.fingerprint = hashlib.blake2b(made_from, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._labels)

    def row(self, index: int, choice: int) -> Row:
        """The tokens of an example with one of its answers."""
        number = index * self._data.classes + choice
        begin = self._ends[number - 1] if number else 0
        return Row(self._tokens[begin : self._ends[number]], int(self._answers[number]))

    def predicted_part(self, row: Row) -> Row:
        """The part of a row in which a model predicts tokens."""
        return row

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        rows = {key: np.zeros((self._data.classes, self._data.length), np.int32) for key in _ROWS}
        for choice in range(self._data.classes):
            ids, answer = self.predicted_part(self.row(index, choice))
            rows["choice_tokens"][choice, : len(ids)] = ids
            rows["choice_segments"][choice, : len(ids)] = 1
            rows["choice_types"][choice, answer : len(ids)] = 1
        label = self._labels[index]
        return rows | {"label": np.asarray(label), "weights": np.asarray(label >= 0, np.float32)}
