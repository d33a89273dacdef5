"""Texts that a vocabulary can hardly be learned from: an end in bounded time, one line, or the tokenizer as before."""

import logging
import random
import time

import numpy as np
import pytest
from tensorflow_datasets import features

from txjax.data import BPE, Bytes, Trained, Unigram, WordPiece
from txjax.data.loading import disk_cache
from txjax.data.tokenizers.vocabulary_training import LONGEST_WORD
from txjax.types import UserError

from helpers.data_sets import write_records

KINDS = {"bpe": BPE(), "wordpiece": WordPiece(), "unigram": Unigram()}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "cache_dir", lambda: tmp_path / "cache")


def tokenizer(folder, texts, kind, size=300):
    layout = {"text": features.Text()}
    data_dir = write_records(folder, "made_texts", layout, {"train": [{"text": text} for text in texts]})
    return Trained(algorithm=KINDS[kind], size=size, name="made_texts", data_dir=data_dir)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_word_is_learned_from_in_pieces(kind, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    trained = tokenizer(tmp_path, ["a short text", "abcde" * LONGEST_WORD], kind)
    trained.load()
    assert caplog.text.count("1 records have words of more than 5000 characters") == 1 and "record 1" in caplog.text
    assert trained.encode("abc").size and "FixedLength" not in trained.load().whole.to_str()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_word_of_a_megabyte_has_an_end(kind, tmp_path):
    word = "".join(random.Random(0).choices("abcdefghij", k=1_000_000))
    start = time.monotonic()
    trained = tokenizer(tmp_path, [word], kind, size=1000)
    assert len(trained.load().ids) == 1000 and time.monotonic() - start < 100


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_shorter_words_are_learned_from_whole(kind, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    texts = [("abcdefghij" * LONGEST_WORD)[: LONGEST_WORD - 1], "über ab aab abc"]
    with monkeypatch.context() as patched:
        patched.setattr("txjax.data.tokenizers.vocabulary_training.LONGEST_WORD", 10**9)
        patched.setattr(disk_cache, "cache_dir", lambda: tmp_path / "other")
        whole = tokenizer(tmp_path, texts, kind).fingerprint()
    assert tokenizer(tmp_path, texts, kind).fingerprint() == whole
    assert "have words of more than" not in caplog.text


EMPTY = {"no characters": ["", ""], "control characters": ["\x01", "\x02\x03"]}


@pytest.mark.parametrize("texts", EMPTY)
@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_texts_without_characters_are_a_line(texts, kind, tmp_path):
    with pytest.raises(UserError) as error:
        tokenizer(tmp_path, EMPTY[texts], kind).encode("a")
    expected = "data.tokenizer.features: expected texts with characters to learn a vocabulary from, got 'none'"
    assert str(error.value) == expected


def test_byte_pairs_need_no_text(tmp_path):
    trained = tokenizer(tmp_path, ["", " "], "bpe")
    assert trained.decode(trained.encode("a\0é")) == "a\0é"


def test_more_characters_than_the_size_are_a_line(tmp_path):
    texts = ["".join(map(chr, range(0x4E00, 0x4E00 + 400)))]
    for kind in ("wordpiece", "unigram"):
        with pytest.raises(UserError, match="data.tokenizer.size: expected .* the characters of the text, got 300"):
            tokenizer(tmp_path / kind, texts, kind).encode("a")


@pytest.mark.parametrize("kind", KINDS)
def test_odd_characters_are_learned_and_given_back(kind, tmp_path):
    trained = tokenizer(tmp_path, [b"a\0b \xff\xed\xa0\x80 c", "a\ufffdb"], kind)
    np.testing.assert_array_equal(trained.encode("a\ud800b"), trained.encode("a\ufffdb"))
    assert trained.encode("a\0b").size


def test_surrogates_of_a_prompt_are_replaced():
    assert Bytes().encode("a\udcff").tolist() == [97, 0xEF, 0xBF, 0xBD]
