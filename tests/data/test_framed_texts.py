"""Data sets of sentences, pairs, choices and answers with the tokens that a published tokenizer puts around texts."""

import numpy as np
import pytest

from txjax.data import (
    Answers,
    Bitext,
    Bytes,
    Choices,
    LabelledText,
    NextTokenPacked,
    NextTokenWindows,
    SentencePairs,
    TextWindows,
    TokenizerFolder,
)
from txjax.data.dataset import RecordDataset
from txjax.types import UserError

from helpers import published_tokenizers as published
from helpers import sentence_set, word_set

pytestmark = pytest.mark.claim("Transfer", "published tokenizers: ids, special tokens and pairs as their files say")

LENGTH = 160


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    at = tmp_path_factory.mktemp("tfds")
    sentence_set.prepare(at)
    return word_set.prepare(at)


@pytest.fixture(scope="module", params=["roberta", "bert", "t5", "gpt2"])
def tokenizer(request, tmp_path_factory):
    return TokenizerFolder(str(getattr(published, request.param)(tmp_path_factory.mktemp(request.param))))


def example(data: RecordDataset, index: int = 0):
    return data.open().example(index, 0, np.random.default_rng(0))


def whole(tokenizer, *texts: str):
    """The library's own encoding of one text or two."""
    return tokenizer.load().whole.encode(*texts)


def same(row, encoding) -> bool:
    """Whether tokens, types and padding are the library's."""
    size = len(encoding.ids)
    return (
        row["tokens"].tolist() == encoding.ids + [0] * (LENGTH - size)
        and row["types"].tolist() == encoding.type_ids + [0] * (LENGTH - size)
        and row["segments"].tolist() == [1] * size + [0] * (LENGTH - size)
    )


def test_sentences_and_pairs(data_dir, tokenizer):
    settings = {"data_dir": data_dir, "classes": 3, "length": LENGTH, "tokenizer": tokenizer}
    pairs = LabelledText("made_sentences", text=("first", "second"), **settings)
    single = LabelledText("made_sentences", text=("first",), **settings)
    for index, record in enumerate(sentence_set.records(4)):
        assert same(example(pairs, index), whole(tokenizer, record["first"], record["second"]))
        assert same(example(single, index), whole(tokenizer, record["first"]))


def test_choices(data_dir, tokenizer):
    endings = ("{question}", "{question} {question}", "x {question}")
    settings = {"label": "right", "length": LENGTH, "tokenizer": tokenizer}
    row = example(Choices("made_words", data_dir=data_dir, choices=endings, **settings))
    record = word_set.records(1)[0]
    for number, ending in enumerate(endings):
        choice = {key: row[f"choice_{key}"][number] for key in ("tokens", "types", "segments")}
        assert same(choice, whole(tokenizer, record["context"], ending.format(**record)))


def test_answers_are_in_their_context(data_dir, tokenizer):
    data = Answers("made_words", data_dir=data_dir, length=LENGTH, tokenizer=tokenizer)
    if not tokenizer.frame(2).before:
        with pytest.raises(UserError, match="data.tokenizer: expected a token before a question"):
            data.check()
        return
    record, row = word_set.records(1)[0], example(data)
    encoding = whole(tokenizer, record["question"], record["context"])
    assert same(row, encoding)
    assert row["context"][: len(encoding.ids)].tolist() == [number == 1 for number in encoding.sequence_ids]
    answer = row["tokens"][row["start"] : row["end"] + 1].tolist()
    assert "babbage" in tokenizer.decode(answer).lower() and len(answer) <= len("babbage")


def test_a_translation_is_two_sentences(data_dir, tokenizer):
    data = Bitext("made_words", data_dir=data_dir, text=("question", "context"), length=LENGTH, tokenizer=tokenizer)
    record, row = word_set.records(1)[0], example(data)
    first, second = (whole(tokenizer, record[name]) for name in ("question", "context"))
    assert row["tokens"][row["segments"] > 0].tolist() == first.ids + second.ids
    assert row["positions"][row["segments"] > 0].tolist() == [*range(len(first.ids)), *range(len(second.ids))]


def test_stretches_of_a_document(tokenizer):
    data = SentencePairs("txjax_python_text", "validation", length=64, tokenizer=tokenizer)
    frame, row = tokenizer.frame(2), example(data)
    texts = [row["tokens"][row["weights"] > 0]]
    size = int(row["segments"].sum())
    assert size == len(texts[0]) + frame.size == 64
    first = texts[0][: len(texts[0]) - len(texts[0]) // 2]
    np.testing.assert_array_equal(row["tokens"], frame.row([first, texts[0][len(first) :]]).ids)


@pytest.mark.parametrize("kind", [TextWindows, NextTokenWindows, NextTokenPacked])
def test_documents_have_a_start_and_an_end(kind):
    settings = {"length": 400, "tokenizer": Bytes(("[START]", "[END]"))}
    plain, marked = (
        kind("txjax_python_text", "validation", start=start, end=end, **settings)
        for start, end in ((None, None), ("[START]", "[END]"))
    )
    documents, others = plain.tokens(), marked.tokens()
    for number in range(3):
        np.testing.assert_array_equal(others.text(number), [256, *documents.text(number), 257])
    row = example(marked)
    tokens, positions = row["tokens"], row["positions"]
    np.testing.assert_array_equal(tokens == 256, (positions == 0) & (row["segments"] > 0))
    if kind is TextWindows:
        np.testing.assert_array_equal(row["weights"], tokens < 256)  # no mark is masked
    if kind is NextTokenWindows:
        np.testing.assert_array_equal(row["weights"], row["targets"] != 256)  # an end is predicted, a start isn't


def test_marks_are_special_tokens():
    with pytest.raises(UserError, match=r"data.tokenizer.specials: expected the token \[END\] among them"):
        NextTokenWindows("txjax_python_text", end="[END]").check()
    with pytest.raises(UserError, match="data.end: expected None: a pair has its own special tokens"):
        SentencePairs("txjax_python_text", end="[SEP]", tokenizer=Bytes(("[CLS]", "[SEP]"))).check()
