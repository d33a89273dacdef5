"""Entities: precision, recall and F1 of whole ones, and what is missing."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from txjax.eval import Entities
from txjax.experiment import Experiment
from txjax.objectives import Classification, TokenClassification
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import TAGGED, TAGS, WEIGHED, Net, Pictures, Tagged, TaggedSource, Tagger, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "entities by seqeval equal a count of whole ones (needs seqeval); translations found equal a loop over all pairs",
)


def entities(names):
    """(kind, start, end) of the chunks of a list of tags, by CoNLL's rules, where I- may begin one."""
    found, start = set(), None
    for i, name in enumerate([*names, "O"]):
        begins = name[:2] == "B-" or (name[:2] == "I-" and (i == 0 or names[i - 1][2:] != name[2:]))
        if start is not None and (name == "O" or begins):
            found.add((names[start][2:], start, i))
            start = None
        if begins:
            start = i
    return found


def test_scores_of_whole_entities():
    pytest.importorskip("seqeval")
    right = predicted = actual = 0
    for i in range(len(TAGGED)):
        real = WEIGHED[i] > 0
        words = TaggedSource().example(i, 0, None)["tokens"]
        want, got = (entities([TAGS[t] for t in row[real]]) for row in (TAGGED[i], words))
        right, predicted, actual = right + len(want & got), predicted + len(got), actual + len(want)
    found = measure(Tagger(), TokenClassification(), Entities(data=Tagged()))
    precision, recall = right / predicted, right / actual
    f1 = 2 * precision * recall / (precision + recall)
    assert found == pytest.approx({"precision": precision, "recall": recall, "f1": f1}) and 0 < f1 < 1


@dataclasses.dataclass
class ShortTagged(Tagged):
    """Texts whose last two words have no target, and are cut away, from the 17th text on."""

    cut: bool = True

    def open(self):
        return CutSource() if self.cut else ShortSource()


class ShortSource(TaggedSource):
    def example(self, index, epoch, rng):
        example = super().example(index, epoch, rng)
        return example | {"weights": example["weights"] * (np.arange(6) < (6 if index <= 16 else 4))}


class CutSource(ShortSource):
    def cuts(self, shown, seed):
        size = max(6 if example <= 16 else 4 for example, _ in shown)
        return {key: (slice(size),) for key in ("tokens", "targets", "weights")}


def test_batches_may_differ_in_length():
    pytest.importorskip("seqeval")
    scores = [measure(Tagger(), TokenClassification(), Entities(data=ShortTagged(cut=cut))) for cut in (True, False)]
    assert scores[0] == scores[1] and 0 < scores[0]["f1"] < 1


def run(data, model, objective):
    return Experiment(model=model, objective=objective, data=data, evals={"x": Entities(data=data)}, batch_size=16)


def test_what_is_missing(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "seqeval" else found(name, *more)
    )
    with pytest.raises(
        UserError, match=r"config.evals.x: expected the package seqeval to be installed; .*'txjax\[text\]'"
    ):
        check(run(Tagged(), Tagger(), TokenClassification()))
    with pytest.raises(UserError, match=r"classes with the names O, B-KIND and I-KIND, got 'NOUN'"):
        check(run(Tagged(names=("O", "NOUN")), Tagger(), TokenClassification()))
    with pytest.raises(UserError, match=r"config.evals.x.data: expected examples with .*targets"):
        check(run(Pictures(), Net(), Classification()))
