"""Sentences: the examples have all tokens and labels of the set at the right positions, except truncated ones."""

import functools
import json
import logging

import numpy as np
import pytest

from txjax import tree
from txjax.data import (
    Bytes,
    Characters,
    LabelledText,
    MatchedSentences,
    ScoredText,
    Sentences,
    Subset,
    Trained,
    WordPiece,
)
from txjax.data.keys import BATCH_KEYS
from txjax.data.loading.buckets import LengthShares
from txjax.data.text.sentences import truncate_sentences
from txjax.data.tfds.records import Records
from txjax.types import UserError

from helpers import sentence_set

CLS, SEP = 256, 257
FEATURES = ("first", "second")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return sentence_set.prepare(tmp_path_factory.mktemp("tfds"))


def pairs(data_dir, **settings):
    settings = {"text": ("first", "second"), "classes": 3, "length": 60} | settings
    return LabelledText("made_sentences", "train", data_dir=data_dir, **settings)


def cut_one_by_one(first, second, length):
    """As BERT's own code does it."""
    first, second = list(first), list(second)
    while len(first) + len(second) > length:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_buckets_that_are_shares_follow_the_length(data_dir):
    for length, lengths in ((60, (15, 30, 60)), (7, (1, 3, 7)), (5, (1, 2, 5))):
        data = pairs(data_dir, length=length, buckets=LengthShares((0.5, 0.25)))
        data.check()
        assert data.open().buckets == tuple((size,) for size in lengths)


@pytest.mark.parametrize("length", [5, 60, 300])
@pytest.mark.parametrize("features", [("first",), ("first", "second")])
def test_examples_are_the_sets_sentences(data_dir, features, length):
    text = pairs(data_dir, text=features, length=length)
    source = text.open()
    sentences = Sentences("made_sentences", "train", data_dir, length, text=features).open()
    assert len(source) == len(sentences) == 60
    cut = 0
    for i, record in enumerate(sentence_set.records(60)):
        first, second = record["first"].encode(), record["second"].encode()
        if len(features) == 1:
            kept = [first[: length - 2]]
            expected, types = [CLS, *kept[0], SEP], [0] * (len(kept[0]) + 2)
        else:
            kept = cut_one_by_one(first, second, length - 3)
            expected = [CLS, *kept[0], SEP, *kept[1], SEP]
            types = [0] * (len(kept[0]) + 2) + [1] * (len(kept[1]) + 1)
        cut += sum(map(len, kept)) < len(first) + len(second) * (len(features) == 2)
        example, padding = source.example(i, 0, None), [0] * (length - len(expected))
        assert example["tokens"].tolist() == expected + padding
        assert example["types"].tolist() == types + padding
        assert example["segments"].tolist() == [1] * len(expected) + padding
        assert (example["label"], example["weights"]) == (record["label"], record["label"] != -1)
        alone = sentences.example(i, 0, None)
        assert alone["weights"].tolist() == [float(token not in (CLS, SEP)) for token in expected] + padding
        assert all(np.array_equal(alone[key], example[key]) for key in ("tokens", "segments", "types"))
        assert "label" not in alone and alone["weights"].dtype == np.float32
        assert source.lengths[0].of[i] == len(expected)
        assert {k: (a.shape, a.dtype) for k, a in example.items()} == {
            k: (s.shape, s.dtype) for k, s in text.spec().items() if k != "id"
        }
    assert (cut > 0) == (length < 300) and set(text.spec()) <= set(BATCH_KEYS)


def test_the_longer_sentence_is_cut_first():
    for a in range(9):
        for b in range(9):
            for length in range(2, 20):
                found = truncate_sentences([np.arange(a), np.arange(b)], length)
                assert tuple(part.tolist() for part in found) == cut_one_by_one(range(a), range(b), length)


def test_numbers_are_values(data_dir):
    numbers = functools.partial(ScoredText, "made_sentences", data_dir=data_dir, text=FEATURES, value="score")
    with pytest.raises(
        UserError, match=r"data.value: expected a feature of kind Tensor or Scalar \(the set has score\)"
    ):
        numbers(value="label").check()
    source = numbers().open()
    for i, record in enumerate(sentence_set.records(60)):
        example = source.example(i, 0, None)
        assert "label" not in example and example["value"].dtype == np.float32
        assert (example["value"], example["weights"]) == (record["score"], record["score"] != -1)
    every = numbers(unlabelled=None).open()
    assert every.example(6, 0, None)["weights"] == 1


def test_ids_and_types_are_those_of_the_tokenizers_library(data_dir):
    from tokenizers import processors

    trained = Trained(WordPiece(), 200, "made_sentences", "train", data_dir, ("first", "second"))
    library = type(trained.load().whole).from_str(trained.load().whole.to_str())
    marks = [(name, trained.special(name)) for name in ("[CLS]", "[SEP]")]
    library.post_processor = processors.BertProcessing(marks[1], marks[0])
    source = pairs(data_dir, tokenizer=trained).open()
    for i, record in enumerate(sentence_set.records(60)):
        encoding, example = library.encode(record["first"], record["second"]), source.example(i, 0, None)
        size = len(encoding.ids)
        assert example["tokens"][:size].tolist() == encoding.ids and source.lengths[0].of[i] == size
        assert example["types"][:size].tolist() == encoding.type_ids


def test_fingerprints_differ_between_sets_and_labels(data_dir):
    settings = [{}, {"text": ("second", "first")}, {"text": ("first",)}, {"tokenizer": specials("[A]")}]
    prints = [pairs(data_dir, **s).open().fingerprint for s in settings]
    scores = ScoredText("made_sentences", data_dir=data_dir, length=60, text=FEATURES, value="score")
    prints.append(scores.open().fingerprint)
    assert len(set(prints)) == len(prints) and pairs(data_dir).open().fingerprint == prints[0]


def test_a_subset_has_as_many_of_each_class_and_their_own_sentences(data_dir):
    whole, few = pairs(data_dir).open(), pairs(data_dir, subset=Subset(per_class=2)).open()
    examples = [few.example(i, 0, None) for i in range(len(few))]
    assert np.bincount([example["label"] for example in examples]).tolist() == [2, 2, 2]
    everything = [whole.example(i, 0, None) for i in range(len(whole))]
    indices = [
        next(i for i, all_ in enumerate(everything) if all(np.array_equal(all_[k], example[k]) for k in example))
        for example in examples
    ]
    assert len(set(indices)) == 6 and few.lengths[0].of.tolist() == whole.lengths[0].of[indices].tolist()
    assert few.fingerprint != whole.fingerprint


def test_half_of_the_second_sentences_are_of_other_records(data_dir):
    settings = {"data_dir": data_dir, "text": ("first", "second"), "length": 60}
    pairs = MatchedSentences("made_sentences", "train", **settings).open()
    parts = [
        [s.example(i, 0, None)["tokens"] for i in range(60)]
        for s in (Sentences("made_sentences", "train", **settings | {"text": (name,)}).open() for name in FEATURES)
    ]
    labels = []
    for epoch in range(20):
        for i in range(60):
            example = pairs.example(i, epoch, np.random.default_rng((epoch, i)))
            first, second, _ = np.split(example["tokens"], np.flatnonzero(example["tokens"] == SEP)[:2] + 1)
            assert same_start(first[1:-1], parts[0][i][1:])
            labels.append(int(example["next_sentence"]))
            of = [i] if labels[-1] else [j for j in range(60) if j != i]
            assert any(same_start(second[:-1], parts[1][j][1:]) for j in of)
    assert abs(np.mean(labels) - 0.5) < 0.05
    alone = MatchedSentences("made_sentences", "train", **settings | {"text": ("first",)}).open()
    row = alone.example(3, 0, np.random.default_rng(0))
    assert row.pop("next_sentence") == -1 and np.array_equal(row["tokens"], parts[0][3])
    with pytest.raises(UserError, match=r"data.buckets: expected \(\), since the second sentence changes"):
        MatchedSentences("made_sentences", "train", **settings, buckets=(16,)).check()


def same_start(some, whole):
    return np.array_equal(some, whole[: len(some)])


def specials(*more):
    return Bytes(("[CLS]", "[SEP]", *more))


def test_json_round_trip(data_dir):
    text = pairs(data_dir, buckets=(8, 16), sort_batches=4)
    assert tree.from_json(json.loads(json.dumps(tree.to_json(text)))) == text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"text": ("first", "second", "first")}, "data.text: expected one text feature, or two"),
        ({"text": ("first", "secnd")}, "did you mean second"),
        ({"label": "first"}, "data.label: expected a feature of kind ClassLabel"),
        ({"classes": 2}, "data.classes: expected the 3 classes of made_sentences"),
        ({"length": 4}, "data.length: expected at least 5"),
        ({"tokenizer": Characters()}, "the token [CLS] among them"),
        ({"buckets": (16, 8)}, "data.buckets: expected ascending lengths, at most data.length = 60"),
        ({"buckets": (16, 61)}, "at most data.length = 60"),
        ({"sort_batches": 2}, "data.buckets: expected lengths, if sort_batches is above 1"),
    ],
)
def test_user_errors(data_dir, settings, words):
    with pytest.raises(UserError) as error:
        pairs(data_dir, **settings).check()
    assert words in str(error.value)


GLUE = {
    "banking77": (("text",), 77, 10_003),
    "glue/cola": (("sentence",), 2, 8551),
    "glue/mrpc": (("sentence1", "sentence2"), 2, 3668),
    "glue/stsb": (("sentence1", "sentence2"), None, 5749),
}


@pytest.mark.parametrize("name", GLUE)
def test_real_sets_read(tfds_dir, name, caplog):
    features, classes, count = GLUE[name]
    caplog.set_level(logging.WARNING)
    settings = {"text": features, "length": 64, "data_dir": str(tfds_dir)}
    kind = functools.partial(LabelledText, classes=classes) if classes else ScoredText
    text = kind(name, "train[:50]", **settings)
    source, records = text.open(), Records(name, "train[:50]", str(tfds_dir), [*features, "label"])
    for i in (0, 17, 49):
        record, example = records[i], source.example(i, 0, None)
        kept = truncate_sentences([np.frombuffer(record[f], np.uint8) for f in features], 63 - len(features))
        tokens = example["tokens"][np.isin(example["tokens"], [CLS, SEP], invert=True) & (example["segments"] > 0)]
        assert tokens.tolist() == np.concatenate(kept).tolist()
        assert example["label" if classes else "value"] == record["label"] and example["weights"] == 1
    assert len(Records(name, "train", str(tfds_dir), ["label"])) == count
    if name.startswith("glue"):
        hidden = kind(name, "test[:5]", **settings).open()
        assert [hidden.example(i, 0, None)["weights"] for i in range(5)] == [0] * 5
