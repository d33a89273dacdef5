"""`txjax_skills`: made-up questions with one right answer each: addition, copying, in-context regression."""

import hashlib
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow_datasets as tfds

TRAIN = {"addition": 6000, "copying": 40_000, "in_context_regression": 40_000}  # questions of `train`, by skill
TEST = 500  # questions of `validation` and of `test`
PARTS = 10  # one part of all keys is `validation`'s, one is `test`'s, the others are `train`'s
DIGITS = 2  # most digits of a number that is added
LETTERS = (4, 10)  # fewest and most letters of a text that is copied
COEFFICIENTS = 10  # a and b of a line y = a * x + b are below it
POINTS = 4  # points of the line that a prompt shows
XS = 6  # x is below it


class Question(NamedTuple):
    """A question.

    Attributes:
      prompt: its text.
      answer: the right one.
      key: questions with an equal key are in one split.
    """

    prompt: str
    answer: str
    key: str


def addition(rng: random.Random) -> Question:
    """`85+39=` and `421`: the digits of 124 from the last one on, since a small model learns that from fewer examples
    (Lee et al. 2023, "Teaching Arithmetic to Small Transformers", 3). `a+b` and `b+a` have the same key.
    """
    a, b = (rng.randrange(10**DIGITS) for _ in range(2))
    return Question(f"{a}+{b}=", str(a + b)[::-1], f"{min(a, b)}+{max(a, b)}")


def copying(rng: random.Random) -> Question:
    """`qwert>` and `qwert`."""
    text = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(*LETTERS)))
    return Question(f"{text}>", text, text)


def in_context_regression(rng: random.Random) -> Question:
    """`3:17 5:23 0:8 1:11 4:` and `20`, of the line y = 3 * x + 8 (Garg et al. 2022, in small integers).

    All x of a prompt differ. A line's questions have the same key, so lines of `test` are not in `train`.
    """
    slope, intercept = (rng.randrange(COEFFICIENTS) for _ in range(2))
    *shown, asked = rng.sample(range(XS), POINTS + 1)
    points = " ".join(f"{x}:{slope * x + intercept}" for x in shown)
    return Question(f"{points} {asked}:", str(slope * asked + intercept), f"{slope} {intercept}")


SKILLS: dict[str, Callable[[random.Random], Question]] = {
    skill.__name__: skill for skill in (addition, copying, in_context_regression)
}


class Builder(tfds.core.GeneratorBasedBuilder):
    """Records with the texts `prompt` and `answer`; `txjax_skills/NAME` has the questions of one skill.

    No prompt is twice in a split, and splits share no key. All that is random follows from the skill and the split.
    """

    VERSION = tfds.core.Version("1.0.0")
    SPLITS = ("train", "validation", "test")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in SKILLS]

    def check(self) -> None:
        """Raises nothing: the questions are made here."""

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"Questions and answers of the skill {self.builder_config.name}.",
            features=tfds.features.FeaturesDict({"prompt": tfds.features.Text(), "answer": tfds.features.Text()}),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(split) for split in self.SPLITS}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, str]]]:
        skill = self.builder_config.name
        size = TRAIN[skill] if split == "train" else TEST
        for number, question in enumerate(questions(skill, split, size)):
            yield number, {"prompt": question.prompt, "answer": question.answer}


def questions(skill: str, split: str, size: int) -> Iterator[Question]:
    """The first `size` questions of a split."""
    rng = random.Random(f"{skill} {split}")
    prompts = set[str]()
    while len(prompts) < size:
        question = SKILLS[skill](rng)
        if split_of(question.key) == split and question.prompt not in prompts:
            prompts.add(question.prompt)
            yield question


def split_of(key: str) -> str:
    """The split of a question, by a hash of its key."""
    part = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") % PARTS
    return {0: "validation", 1: "test"}.get(part, "train")
