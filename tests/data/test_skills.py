"""The questions that ship: right, the same everywhere, and none in two splits."""

import itertools
import random

import pytest

from txjax.data.tfds import records
from txjax.data.tfds.builders.txjax_skills.txjax_skills_dataset_builder import SKILLS, TEST, Builder, questions
from txjax.types import UserError

COUNT = 300


def added(prompt: str) -> str:
    a, b = prompt.removesuffix("=").split("+")
    return str(int(a) + int(b))[::-1]


def copied(prompt: str) -> str:
    return prompt.removesuffix(">")


def fitted(prompt: str) -> str:
    """On the line through the first two points, on which all others are."""
    *points, asked = [tuple(map(int, filter(None, point.split(":")))) for point in prompt.split()]
    (x0, y0), (x1, y1) = points[:2]

    def line(x: int) -> int:
        y, rest = divmod((y1 - y0) * (x - x0), x1 - x0)
        assert rest == 0
        return y0 + y

    assert all(line(x) == y for x, y in points) and len({x for x, *_ in [*points, asked]}) == len(points) + 1
    return str(line(*asked))


SOLVED = {"addition": added, "copying": copied, "in_context_regression": fitted}


@pytest.mark.parametrize("skill", SKILLS)
def test_answers_are_right_and_splits_share_nothing(skill):
    found = {split: list(questions(skill, split, COUNT)) for split in Builder.SPLITS}
    for split, asked in found.items():
        assert all(question.answer == SOLVED[skill](question.prompt) for question in asked)
        assert len({question.prompt for question in asked}) == COUNT
        random.seed(split)  # of another generator
        assert list(questions(skill, split, COUNT)) == asked
    for one, other in itertools.combinations(found.values(), 2):
        assert not {question.key for question in one} & {question.key for question in other}


def test_a_sum_has_the_split_of_its_operands_in_the_other_order():
    keys = {question.prompt: question.key for question in questions("addition", "train", 3000)}
    both = [(a, b) for a, b in (prompt[:-1].split("+") for prompt in keys) if a < b and f"{b}+{a}=" in keys]
    assert len(both) > 5 and all(keys[f"{a}+{b}="] == keys[f"{b}+{a}="] for a, b in both)


def test_what_is_prepared_are_these_questions():
    source = records.Records("txjax_skills/copying", "test", None, ["prompt", "answer"])
    read = [(record["prompt"].decode(), record["answer"].decode()) for record in source.read(0, len(source))]
    assert read == [(question.prompt, question.answer) for question in questions("copying", "test", TEST)]
    assert read[0] == ("eytjakjj>", "eytjakjj")
    with pytest.raises(UserError, match="data.name"):
        records.check("txjax_skills/coping", "test", None)
