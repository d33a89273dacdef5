"""Questions about the images of records, with their answers: made of other features, each of a kind."""

import dataclasses
import string
from collections.abc import Callable, Sequence
from typing import Any

from txjax.data.multimodal.conversation_templates import Turn
from txjax.data.text.templates import Template
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError, near_misses

MakeQuestion = Callable[[int, dict[str, Any]], Turn]  # of a record, by its number in the split and its features


@dataclasses.dataclass
class Questions:
    """Base of what makes a question and its answer of a record. Its fields are all that they depend on, besides it.

    The question has no marker for an image.
    """

    def features(self, stated: Any) -> tuple[str, ...]:
        """The features of a record that it reads.

        Args:
          stated: the data set's features, of TFDS.

        Raises:
          UserError: the set has no such features.
        """
        raise NotImplementedError

    def function(self, stated: Any) -> MakeQuestion:
        """The question of a record. It follows from the number and the record alone."""
        raise NotImplementedError


@dataclasses.dataclass
class TemplateQuestions(Questions):
    """A question and an answer by format strings over the set's features, as in `Pairs`.

    Attributes:
      question: the text of the question, or a format string.
      answer: a format string.
      references: the name of a sequence of texts, the answers of several people, as VQA has ten. If empty, there are
        none, and the answer alone is right.
      kind: of these questions, for scores by kind. If empty, they have none.
    """

    question: str = "{question}"
    answer: str = "{answer}"
    references: str = ""
    kind: str = ""

    def features(self, stated: Any) -> tuple[str, ...]:
        templates = [self._answer(stated), *([self._question(stated)] if self._is_template() else [])]
        names = [name for template in templates for name in template.names]
        return tuple(dict.fromkeys([*names, *self._references(stated)]))

    def function(self, stated: Any) -> MakeQuestion:
        answer = self._answer(stated)
        question = self._question(stated) if self._is_template() else lambda record: self.question
        references = self._references(stated)

        def make(number: int, record: dict[str, Any]) -> Turn:
            right = tuple(as_string(text) for name in references for text in record[name])
            return Turn(question(record), answer(record), self.kind, right)

        return make

    def _is_template(self) -> bool:
        """Whether the question depends on the record. Braces that a format string can't have are left to `Template`."""
        try:
            return any(name is not None for _, name, _, _ in string.Formatter().parse(self.question))
        except ValueError:
            return True

    def _question(self, stated: Any) -> Template:
        return Template(self.question, stated, "data.turns.questions.question")

    def _answer(self, stated: Any) -> Template:
        return Template(self.answer, stated, "data.turns.questions.answer")

    def _references(self, stated: Any) -> tuple[str, ...]:
        """The feature of the answers of several people, if there is one. Raises UserError unless it has texts."""
        if not self.references:
            return ()
        field = "data.turns.questions.references"
        sequence = records.check_feature(field, self.references, stated, ("Sequence",)).feature
        if type(sequence).__name__ != "Text":
            raise UserError(field, "a sequence of texts", self.references)
        return (self.references,)


@dataclasses.dataclass
class PresenceQuestions(Questions):
    """Whether an image has an object of a class: yes or no. The classes take turns by the records' numbers.

    Attributes:
      question: the question, with the class's name in the place of `{label}`.
      objects: the name of the set's sequence of objects, with a class `label`.
      kind: of these questions, for scores by kind.
      classes: the names of the classes that are asked for. If empty, all.
    """

    question: str = "Is there a {label}?"
    objects: str = "objects"
    kind: str = "presence"
    classes: tuple[str, ...] = ()

    def features(self, stated: Any) -> tuple[str, ...]:
        names = object_classes(self.objects, stated)
        for name in self.classes:
            if name not in names:
                raise UserError(
                    "data.turns.questions.classes", f"some of the {len(names)} classes", name, near_misses(name, names)
                )
        try:
            differs = self.question.format(label="a") != self.question.format(label="b")
        except (ValueError, LookupError):
            differs = False
        if not differs:
            expected = "a format string with {label}, such as 'Is there a {label}?'"
            raise UserError("data.turns.questions.question", expected, self.question)
        return (self.objects,)

    def function(self, stated: Any) -> MakeQuestion:
        names = object_classes(self.objects, stated)
        asked = [names.index(name) for name in self.classes or names]

        def make(number: int, record: dict[str, Any]) -> Turn:
            labels = {int(label) for label in record[self.objects]["label"]}
            wanted = self.choose(number, labels, asked)
            return Turn(self.question.format(label=names[wanted]), "yes" if wanted in labels else "no", self.kind)

        return make

    def choose(self, number: int, labels: set[int], classes: Sequence[int]) -> int:
        """The class that is asked for.

        Args:
          number: of the record.
          labels: the classes of its objects.
          classes: those that may be asked for.
        """
        return classes[number % len(classes)]


@dataclasses.dataclass
class BalancedPresenceQuestions(PresenceQuestions):
    """Whether an image has an object of a class, where "yes" and "no" take turns by the records' numbers.

    So the commoner answer is right for a half (Goyal et al. 2017 balance VQA for the same reason). The classes that an
    image has take turns, and so do the others. If it has none, or all, the answer is the only one that there is.
    """

    def choose(self, number: int, labels: set[int], classes: Sequence[int]) -> int:
        there = [label for label in classes if label in labels]
        absent = [label for label in classes if label not in labels]
        candidates = (absent or there) if number % 2 else (there or absent)
        return candidates[number // 2 % len(candidates)]


@dataclasses.dataclass
class ListingQuestions(Questions):
    """Which objects an image has: the names of their classes, in the order of the classes.

    Attributes:
      question: the text of the question.
      objects: the name of the set's sequence of objects, with a class `label`.
      separator: the text between two names.
      kind: of these questions, for scores by kind.
    """

    question: str = "What is there?"
    objects: str = "objects"
    separator: str = " "
    kind: str = "listing"

    def features(self, stated: Any) -> tuple[str, ...]:
        object_classes(self.objects, stated)
        return (self.objects,)

    def function(self, stated: Any) -> MakeQuestion:
        names = object_classes(self.objects, stated)

        def make(number: int, record: dict[str, Any]) -> Turn:
            labels = sorted(int(label) for label in record[self.objects]["label"])
            return Turn(self.question, self.separator.join(names[label] for label in labels), self.kind)

        return make


@dataclasses.dataclass
class AlternatingQuestions(Questions):
    """Questions of several kinds in turn, by the records' numbers: of k kinds, record n has kind n mod k.

    A part counts its own records only, so that record n is number n // k of its part.

    Attributes:
      parts: the kinds.
    """

    parts: tuple[Questions, ...] = ()

    def features(self, stated: Any) -> tuple[str, ...]:
        if not self.parts:
            raise UserError("data.turns.questions.parts", "at least one kind of question", self.parts)
        return tuple(dict.fromkeys(name for part in self.parts for name in part.features(stated)))

    def function(self, stated: Any) -> MakeQuestion:
        parts = [part.function(stated) for part in self.parts]
        return lambda number, record: parts[number % len(parts)](number // len(parts), record)


def object_classes(feature: str, stated: Any) -> Sequence[str]:
    """The names of the classes of a set's objects.

    Args:
      feature: the name of the sequence of objects.
      stated: the set's features, of TFDS.

    Raises:
      UserError: the set has no such sequence, or its objects have no class `label`.
    """
    field = "data.turns.questions.objects"
    sequence = records.check_feature(field, feature, stated, ("Sequence",)).feature
    classes: Any = sequence["label"] if "label" in getattr(sequence, "keys", dict)() else None
    if type(classes).__name__ != "ClassLabel":
        raise UserError(field, "a sequence with a class label", feature)
    return classes.names  # type: ignore[no-any-return]
