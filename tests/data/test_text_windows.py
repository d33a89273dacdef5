"""Windows have all tokens of the text in order, with separate documents."""

import numpy as np
import pytest

from txjax.data import Bytes, NextTokenWindows, SentencePairs, TextWindows
from txjax.data.loading.rng import example_rng
from txjax.data.text.text_windows import WindowSource
from txjax.data.text.token_cache import Tokens
from txjax.types import UserError

SPECIALS = Bytes(("[CLS]", "[SEP]"))
CLS, SEP = 256, 257


def tokens_of(*lengths):
    """Documents of these lengths; token t of the whole text has the value t % 251."""
    documents = np.concatenate([[0], np.cumsum(lengths)])
    return Tokens(np.arange(documents[-1], dtype=np.int64) % 251, documents, "print")


def read(windows, tokens, index, epoch=0, seed=0):
    return WindowSource(windows, tokens).example(index, epoch, example_rng(seed, epoch, index))


def documents_and_positions(lengths):
    """Document number and position in it of every token, the slow way."""
    return np.array([(d, p) for d, length in enumerate(lengths) for p in range(length)])


@pytest.mark.parametrize("kind", [TextWindows, NextTokenWindows])
@pytest.mark.parametrize("lengths", [(40,), (3, 1, 1, 9, 30, 2), (1,) * 30, (0, 3, 0, 1, 9, 0, 0, 30, 2, 0)])
def test_windows_are_the_text_in_order(kind, lengths):
    windows, tokens = kind(length=5), tokens_of(*lengths)
    source, truth = WindowSource(windows, tokens), documents_and_positions(lengths)
    for w in range(len(source)):
        example = source.example(w, 0, None)
        at = slice(5 * w, 5 * w + 5)
        np.testing.assert_array_equal(example["tokens"], tokens.tokens[at])
        documents = truth[at, 0]
        _, numbers = np.unique(documents, return_inverse=True)
        np.testing.assert_array_equal(example["segments"], numbers + 1)
        begins = [np.flatnonzero(documents == d)[0] for d in documents]
        np.testing.assert_array_equal(example["positions"], np.arange(5) - begins)
    assert 5 * len(source) <= len(tokens) < 5 * (len(source) + 2)


def test_targets_follow_and_those_in_another_document_weigh_nothing():
    lengths = (7, 1, 12, 20)
    tokens, truth = tokens_of(*lengths), documents_and_positions(lengths)
    for w in range(len(WindowSource(NextTokenWindows(name="txjax_python_text", length=6), tokens))):
        example = read(NextTokenWindows(name="txjax_python_text", length=6), tokens, w)
        np.testing.assert_array_equal(example["targets"], tokens.tokens[6 * w + 1 : 6 * w + 7])
        same = truth[6 * w : 6 * w + 6, 0] == truth[6 * w + 1 : 6 * w + 7, 0]
        np.testing.assert_array_equal(example["weights"], same.astype(np.float32))


def test_without_boundaries_a_window_is_one_run_of_text():
    example = read(NextTokenWindows(name="txjax_python_text", length=6, boundaries=False), tokens_of(2, 2, 40), 0)
    assert set(example) == {"tokens", "targets", "weights"}
    np.testing.assert_array_equal(example["weights"], np.ones(6))


@pytest.mark.parametrize(
    "windows",
    [
        TextWindows(name="txjax_python_text", length=8),
        NextTokenWindows(name="txjax_python_text", length=8),
        SentencePairs(name="txjax_python_text", length=8),
    ],
)
def test_later_epochs_cut_the_text_elsewhere(windows):
    windows.tokenizer = SPECIALS
    tokens = tokens_of(200)
    source = WindowSource(windows, tokens)
    firsts = set()
    for epoch in range(30):
        start = windows.stride() * 0
        shown = [source.example(w, epoch, example_rng(0, epoch, w))["tokens"] for w in (0, len(source) - 1)]
        at = 1 if isinstance(windows, SentencePairs) else 0
        start = int(shown[0][at])
        assert shown[1][at] == (start + (len(source) - 1) * windows.stride()) % 251  # one offset for all windows
        firsts.add(start)
        assert start == 0 or epoch > 0
    assert firsts <= set(range(windows.stride())) and len(firsts) > 3


@pytest.mark.parametrize("kind", [TextWindows, NextTokenWindows, SentencePairs])
def test_examples_are_as_the_spec_says(kind):
    windows = kind(length=9, tokenizer=SPECIALS)
    example = read(windows, tokens_of(5, 6, 30), 1)
    spec = {key: (s.shape, s.dtype) for key, s in windows.spec().items() if key != "id"}
    assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
    assert windows.vocab() == 258


def test_pairs_follow_half_of_the_time_and_otherwise_come_from_another_document():
    lengths = (100, 3, 60, 1, 86)
    tokens, truth = tokens_of(*lengths), documents_and_positions(lengths)
    windows = SentencePairs(name="txjax_python_text", length=11, tokenizer=SPECIALS)
    source, followed = WindowSource(windows, tokens), []
    for w in range(len(source)):
        for seed in range(8):
            example = source.example(w, 0, example_rng(seed, 0, w))
            row = example["tokens"]
            assert row[0] == CLS
            first, second = np.flatnonzero(row == SEP)
            a, b = row[1:first], row[first + 1 : second]
            size = example["segments"].sum()
            assert size == second + 1 and not row[size:].any() and not example["weights"][size:].any()
            np.testing.assert_array_equal(example["types"], (np.arange(11) > first) & (np.arange(11) <= second))
            real = np.isin(np.arange(11), [0, first, second], invert=True) & (np.arange(11) < size)
            np.testing.assert_array_equal(example["weights"], real)
            # Up to 250 tokens, a token's value is its position in the text.
            assert len(a) and len(b) and (np.diff(a) == 1).all() and (np.diff(b) == 1).all()
            assert len(set(truth[a, 0])) == len(set(truth[b, 0])) == 1
            if example["next_sentence"]:
                assert b[0] == a[-1] + 1 and truth[a[0], 0] == truth[b[0], 0]
            else:
                assert truth[a[0], 0] != truth[b[0], 0]
            followed.append(example["next_sentence"])
    assert 0.4 < np.mean(followed) < 0.6


def test_swapped_pairs_are_neighbours_in_either_order():
    lengths = (100, 60, 86)
    tokens, truth = tokens_of(*lengths), documents_and_positions(lengths)
    windows = SentencePairs(name="txjax_python_text", length=11, tokenizer=SPECIALS, other="swapped")
    source, followed = WindowSource(windows, tokens), []
    for w in range(len(source)):
        example = source.example(w, 0, example_rng(1, 0, w))
        row = example["tokens"]
        first, second = np.flatnonzero(row == SEP)
        a, b = row[1:first], row[first + 1 : second]
        early, late = (a, b) if example["next_sentence"] else (b, a)
        assert late[0] == early[-1] + 1 and len(set(truth[[*a, *b], 0])) == 1
        np.testing.assert_array_equal(example["types"], (np.arange(11) > first) & (np.arange(11) <= second))
        followed.append(example["next_sentence"])
    assert 0 < np.mean(followed) < 1


def test_pairs_are_drawn_by_seed_epoch_and_example():
    windows, tokens = SentencePairs(name="txjax_python_text", length=11, tokenizer=SPECIALS), tokens_of(100, 100)
    rows = [read(windows, tokens, 3, seed=seed)["tokens"].tolist() for seed in range(20)]
    assert rows == [read(windows, tokens, 3, seed=seed)["tokens"].tolist() for seed in range(20)]
    assert len({tuple(row) for row in rows}) > 5


def test_one_document_still_makes_pairs():
    windows, tokens = SentencePairs(name="txjax_python_text", length=11, tokenizer=SPECIALS), tokens_of(100)
    labels = {int(read(windows, tokens, 3, seed=seed)["next_sentence"]) for seed in range(20)}
    assert labels == {0, 1}


def test_too_little_text_is_an_error():
    with pytest.raises(UserError, match="two windows in the 15 tokens"):
        WindowSource(TextWindows(name="txjax_python_text", length=16), tokens_of(15))


def test_user_errors():
    with pytest.raises(UserError, match=r"data.feature: .*'txt'; did you mean text"):
        TextWindows(name="txjax_python_text", feature="txt").check()
    with pytest.raises(UserError, match=r"the token \[CLS\] among them"):
        SentencePairs(name="txjax_python_text").check()
    with pytest.raises(UserError, match="at least 5"):
        SentencePairs(name="txjax_python_text", length=4, tokenizer=SPECIALS).check()


def test_windows_of_real_text_are_the_real_text():
    from txjax.data.tfds.records import Records

    windows = NextTokenWindows(name="txjax_python_text", split="validation", length=512)
    source = windows.open()
    records = Records("txjax_python_text", "validation", None, ["text"])
    text = b"".join(record["text"] for record in records.read(0, len(records)))
    shown = b"".join(source.example(w, 0, None)["tokens"].astype(np.uint8).tobytes() for w in range(len(source)))
    assert text.startswith(shown) and len(text) - len(shown) < 2 * 512
    assert (
        source.fingerprint
        == windows.open().fingerprint
        != TextWindows(name="txjax_python_text", split="validation[:50%]").open().fingerprint
    )
