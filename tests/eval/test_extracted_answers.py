"""Answers by windows of long contexts, and the rules of SQuAD's official script."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Answers, Bytes
from txjax.data.tfds import records
from txjax.eval import ExtractedAnswers
from txjax.eval.results import means
from txjax.eval.text.extracted_answers import best_in_context, judge, normalise_answer
from txjax.objectives import Spans
from txjax.types import UserError

from helpers import word_set
from helpers.arrays import numbers
from helpers.evaluations import HELD, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "windows of long contexts, the best span of all of them, the rules of SQuAD's script; answers outside their "
    "context",
)

SPECIALS = ("[CLS]", "[SEP]")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return word_set.prepare(tmp_path_factory.mktemp("tfds"))


def answers(data_dir, **settings):
    settings = {"length": 24, "stride": 7, "question_length": 3, "tokenizer": Bytes(SPECIALS)} | settings
    return Answers("made_words", "train", data_dir, **settings)


def test_windows_cover_the_context_and_have_the_answer_where_it_is_whole(data_dir):
    source = answers(data_dir).open()
    seen = {}
    for index in range(len(source)):
        example = source.example(index, 0, np.random.default_rng(0))
        record, begin = source.window(index)
        context = word_set.records(12)[record]["context"].encode()
        piece = context[begin : begin + 18]
        assert example["tokens"][: 6 + len(piece)].tolist() == [256, *b"Who", 257, *piece, 257]
        assert source.lengths[0].of[index] == 6 + len(piece) == example["segments"].sum()
        start, end = int(example["start"]), int(example["end"])
        whole = b"Babbage" in piece and record % 3 != 2
        assert (bytes(example["tokens"][start : end + 1].tolist()) == b"Babbage") if whole else (start, end) == (0, 0)
        assert example["weights"] == 1
        seen.setdefault(record, set()).update(range(begin, begin + len(piece)))
    assert {record: len(covered) for record, covered in seen.items()} == {
        i: len(record["context"].encode()) for i, record in enumerate(word_set.records(12))
    }


class Finder(nn.Module):
    """Finds the B, and an end six bytes later."""

    @nn.compact
    def __call__(self, tokens, segments=None, types=None, train=False):
        first = self.param("scale", nn.initializers.ones, ()) * (tokens == ord("B")).astype(jnp.float32)
        return jnp.stack([first, jnp.roll(first, 6, 1)], 1)


def test_the_best_window_of_each_question_counts(data_dir):
    data = answers(data_dir)
    found = measure(Finder(), Spans(), ExtractedAnswers(data=data), HELD, batch_size=8)
    assert found == pytest.approx({"exact_match": 8 / 12, "f1": 8 / 12})  # each third question has no answer
    short = measure(Finder(), Spans(), ExtractedAnswers(data=data, longest=3), HELD, batch_size=8)
    assert short["exact_match"] == 0
    never = measure(Finder(), Spans(), ExtractedAnswers(data=data, null_threshold=-9.0), HELD, batch_size=8)
    assert never["exact_match"] == pytest.approx(4 / 12)


def test_the_best_span_is_the_best_of_all_pairs_in_the_context():
    logits, context = numbers(50, 2, 7), np.zeros((50, 7), bool)
    context[:, 2:6] = True
    found, score = best_in_context(jnp.asarray(logits), jnp.asarray(context), 3)
    pairs = [(i, j) for i in range(2, 6) for j in range(i, min(i + 3, 6))]
    want = [max(pairs, key=lambda pair, x=x: x[0, pair[0]] + x[1, pair[1]]) for x in logits]
    np.testing.assert_array_equal(found, np.asarray(want) - 2)
    sums = [x[0, i] + x[1, j] for x, (i, j) in zip(logits, want, strict=True)]
    np.testing.assert_allclose(score, sums, rtol=1e-6)


def test_the_rules_of_the_official_script():
    assert normalise_answer("The  Cat, an (old) one.") == "cat old one"
    assert means(judge([("the cat sat", ["a cat", "A cat sat."])])) == {"exact_match": 1.0, "f1": 1.0}
    one = means(judge([("cat sat sat", ["cat sat mat mat"])]))
    assert one == {"exact_match": 0.0, "f1": pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))}
    assert means(judge([("", []), ("cat", []), ("", ["cat"])])) == {
        "exact_match": pytest.approx(1 / 3),
        "f1": pytest.approx(1 / 3),
    }


def test_bad_settings(data_dir, monkeypatch):
    with pytest.raises(UserError, match=r"data.stride: expected at most 18, the context of a window after"):
        answers(data_dir, stride=19).check()
    with pytest.raises(UserError, match=r"data.question_length: expected at most \d+, so that a window of .*, got 999"):
        answers(data_dir, stride=1, question_length=999).check()
    read = records.Records.read

    def moved(self, start, stop):
        found = read(self, start, stop)
        for record in found:
            record["answers"] = {"text": ["Babbage"], "answer_start": [0]}
        return found

    monkeypatch.setattr(records.Records, "read", moved)
    tokenizer = Bytes((*SPECIALS, "[MASK]"))  # another one, so that nothing is cached
    with pytest.raises(
        UserError, match=r"data.answer_feature: expected answers that are in their contexts.*'Babbage' at 0"
    ):
        answers(data_dir, tokenizer=tokenizer).open()
