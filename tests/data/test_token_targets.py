"""Targets of tokens: the class at one token of each word, and the tokens that an answer's characters overlap."""

import numpy as np
import pytest

from txjax.data import Answers, Bytes, Characters, TokenizerFolder, TokenLabels, Trained, WordPiece
from txjax.types import UserError

from helpers import published_tokenizers as published
from helpers import word_set

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "targets of tokens: classes of words, ends of answers; encoders as parts of other models, whose features count",
)

SPECIALS = ("[CLS]", "[SEP]")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return word_set.prepare(tmp_path_factory.mktemp("tfds"))


def wordpiece(data_dir):
    features = ("words", "question")
    return Trained(WordPiece(), 46, "made_words", data_dir=data_dir, features=features)


def words(data_dir, **settings):
    settings = {"text": ("words",), "classes": 3, "length": 80} | settings
    return TokenLabels("made_words", "train", data_dir, **settings)


def answers(data_dir, **settings):
    return Answers("made_words", "train", data_dir, **{"length": 80} | settings)


def read(data, index=0):
    return data.open().example(index, 0, np.random.default_rng(0))


@pytest.mark.parametrize("piece", ["first", "last"])
def test_the_class_of_a_word_is_at_one_of_its_tokens(data_dir, piece):
    data = words(data_dir, tokenizer=wordpiece(data_dir), piece=piece)
    for index, record in enumerate(word_set.records(9)):
        example = read(data, index)
        position, pieces = 1, []
        for word, tag in zip(record["words"], record["tags"], strict=True):
            ids = data.tokenizer.encode(word)
            pieces.append(len(ids))
            assert example["tokens"][position : position + len(ids)].tolist() == ids.tolist()
            weights = np.zeros(len(ids))
            weights[0 if piece == "first" else -1] = tag >= 0
            np.testing.assert_array_equal(example["weights"][position : position + len(ids)], weights)
            assert example["targets"][position : position + len(ids)].sum() == max(tag, 0)
            position += len(ids)
        assert max(pieces) > 1 and example["weights"].sum() == sum(tag >= 0 for tag in record["tags"])
        assert example["tokens"][position] == data.tokenizer.special("[SEP]")


def test_words_that_are_cut_away_have_no_target(data_dir):
    example = read(words(data_dir, tokenizer=Bytes(SPECIALS), length=7))
    assert example["tokens"].tolist() == [256, *b"Ada L", 257]
    assert example["targets"].tolist() == [0, 2, 0, 0, 0, 1, 0]
    assert example["weights"].tolist() == [0, 1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("form", ["gpt2", "roberta", "t5", "bert"])
@pytest.mark.parametrize("piece", ["first", "last"])
def test_words_are_encoded_as_the_text_that_they_are_in(data_dir, tmp_path, form, piece):
    data = words(data_dir, tokenizer=TokenizerFolder(str(getattr(published, form)(tmp_path))), piece=piece)
    before = len(data.frame().before)
    for index, record in enumerate(word_set.records(9)):
        example, text = read(data, index), " ".join(record["words"])
        ids, offsets = data.tokenizer.encode(text).tolist(), data.tokenizer.offsets(text).tolist()
        assert example["tokens"][before : before + len(ids)].tolist() == ids
        labels, position = [], 0
        for word, tag in zip(record["words"], record["tags"], strict=True):
            end = position + len(word)
            inside = [i for i, (begin, stop) in enumerate(offsets) if begin < end and stop > position]
            labels += [(before + inside[0 if piece == "first" else -1], tag)] if tag >= 0 else []
            position = end + 1
        assert [(i, int(example["targets"][i])) for i in example["weights"].nonzero()[0]] == labels


@pytest.mark.parametrize("kind", ["bytes", "characters", "wordpiece"])
def test_the_tokens_between_start_and_end_are_the_answer(data_dir, kind):
    alphabet = "".join(sorted(set(word_set.TEXT + "Who?")))
    tokenizers = {"bytes": Bytes(SPECIALS), "characters": Characters(alphabet, SPECIALS)}
    data = answers(data_dir, tokenizer=tokenizers[kind] if kind in tokenizers else wordpiece(data_dir))
    for index, record in enumerate(word_set.records(9)):
        example = read(data, index)
        start, end = int(example["start"]), int(example["end"])
        assert example["weights"] == 1
        if not record["answers"]:
            assert start == end == 0
            continue
        assert example["types"][start] == example["types"][end] == 1 and start < end
        assert example["tokens"][start : end + 1].tolist() == data.tokenizer.encode("Babbage").tolist()


def test_an_answer_that_is_cut_away_has_no_weight(data_dir):
    example = read(answers(data_dir, tokenizer=Bytes(SPECIALS), length=40))
    assert (example["weights"], example["start"], example["end"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: words(d, classes=4), "data.classes: expected the 3 classes of made_words, got 4"),
        (lambda d: words(d, text=("tags",)), "data.text: expected a sequence of Text"),
        (lambda d: words(d, text=("question",)), "data.text: expected a feature of kind Sequence"),
        (lambda d: words(d, label="words"), "data.label: expected a sequence of ClassLabel"),
        (
            lambda d: answers(d, answer_feature="tags"),
            "data.answer_feature: expected a sequence of text and",
        ),
        (lambda d: answers(d, text=("context",)), "data.text: expected the features of the question and"),
    ],
)
def test_settings_that_do_not_fit(data_dir, make, said):
    with pytest.raises(UserError, match=said):
        make(data_dir).check()
