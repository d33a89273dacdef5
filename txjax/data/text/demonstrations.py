"""Labelled records as prompts and as demonstrations, and which demonstrations a prompt gets."""

import itertools
from collections.abc import Iterator

import numpy as np

from txjax.data.loading.rng import hash32
from txjax.data.text.labelled_text import LabelledText, open_labels
from txjax.data.text.templates import Template
from txjax.data.tfds.computed_labels import label_of
from txjax.errors import UserError

_ANSWER = "\0"  # stands for the answer while a text is written


class WrittenRecords:
    """The records of a split, written by a template that ends with their label.

    Args:
      source: the data set.
      template: the format string.
      answers: the texts of the classes.

    Attributes:
      labels: int64 [N], the class of each record; -1 if it has none.
      gap: the whitespace between a prompt and its answer.
    """

    def __init__(self, source: LabelledText, template: Template, answers: tuple[str, ...]):
        self._split = source.split
        self._template = template
        self._answers = answers
        self._label = label_of(source.label).feature
        self.gap = gap_before(template, self._label)
        self._records = source.record_split.open(template.names)
        self.labels = open_labels(source).astype(np.int64)
        self._labelled = np.flatnonzero(self.labels >= 0)

    def __len__(self) -> int:
        return len(self.labels)

    def prompt(self, number: int, blanks: dict[str, str] | None = None) -> str:
        """The text of a record before its answer, without whitespace at its end.

        Args:
          blanks: texts in place of features. If None, the record's own.
        """
        return self._parts(number, blanks)[0].rstrip()

    def demonstration(self, number: int) -> str:
        """The whole text of a record, with its answer."""
        before, after = self._parts(number)
        return f"{before.rstrip()}{self.gap}{self._answers[self.labels[number]]}{after}"

    def _parts(self, number: int, blanks: dict[str, str] | None = None) -> tuple[str, str]:
        """The text of a record before and after its answer."""
        written = self._template.fill(self._records[number], {**(blanks or {}), self._label: _ANSWER})
        before, _, after = written.rpartition(_ANSWER)
        return before, after

    def draw(self, count: int, seed: int, query: "WrittenRecords", number: int) -> list[int]:
        """The demonstrations of record `number` of `query`: labelled records, all equally likely and different.

        They depend on the seed and the number alone, a draw of fewer is the end of larger ones, and the record itself
        is never among them.

        Raises:
          UserError: there are fewer records.
        """
        query_place = query._records.place(number)
        others = (
            i
            for i in self._shuffled_numbers(hash32("demonstrations", seed, number))
            if self._records.place(i) != query_place
        )
        chosen = list(itertools.islice(others, count))
        if len(chosen) < count:
            expected = f"a split with {count} labelled records, for {count} shots"
            raise UserError("data.demonstrations", expected, self._split)
        return chosen[::-1]

    def _shuffled_numbers(self, key: int) -> Iterator[int]:
        """The numbers of all labelled records in a random order."""
        from grain.experimental import index_shuffle  # slow to import, and not needed by configs

        last = len(self._labelled) - 1
        for position in range(last + 1):
            yield int(self._labelled[index_shuffle(index=position, max_index=last, seed=key, rounds=4)])


def gap_before(template: Template, label: str) -> str:
    """The whitespace of a template between the words before the label and the label."""
    words = template.words_before(label)
    return words[len(words.rstrip()) :]
