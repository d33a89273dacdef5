"""Overlapping windows of documents: every token is a target once, after enough others; errors."""

import numpy as np
import pytest
from test_packed import LENGTHS, tokens_of

from txjax.data import Bytes, SlidingWindows
from txjax.data.text.packed import cut_documents
from txjax.data.text.sliding_windows import SlidingSource
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Evaluation",
    "long documents in overlapping windows equal tokens predicted one by one, each in its context",
)


def windows(length, stride):
    source = SlidingSource(SlidingWindows(length=length, stride=stride), tokens_of(*LENGTHS))
    return [source.example(i, 0, None) for i in range(len(source))]


@pytest.mark.parametrize(("length", "stride"), [(8, 8), (8, 3), (8, 1), (1, 1), (50, 7)])
def test_every_token_but_a_documents_first_is_a_target_once_after_enough_others(length, stride):
    targets = []
    for example in windows(length, stride):
        size = int(example["segments"].sum())
        np.testing.assert_array_equal(example["segments"], np.arange(length) < size)
        np.testing.assert_array_equal(example["positions"][:size], np.arange(size))
        np.testing.assert_array_equal(example["targets"][:size], example["tokens"][:size] + 1)
        assert not any(example[key][size:].any() for key in ("tokens", "targets", "positions", "weights"))
        for at in np.flatnonzero(example["weights"]):
            target = int(example["targets"][at])
            assert at + 1 >= min(target % 100, length - stride + 1)
            targets.append(target)
    assert sorted(targets) == [t for t in sorted(tokens_of(*LENGTHS).tokens.tolist()) if t % 100]


def test_a_stride_of_the_length_cuts_as_packing_does():
    tokens = tokens_of(*LENGTHS)
    for length in (1, 8, 50):
        starts = [int(example["tokens"][0]) for example in windows(length, length)]
        assert starts == tokens.tokens[cut_documents(tokens.documents, length, 1)[:, 0]].tolist()


def test_windows_of_real_text_and_their_fingerprint():
    text = SlidingWindows("txjax_python_text", "validation[:5%]", length=512, stride=200)
    source = text.open()
    spec = {key: (s.shape, s.dtype) for key, s in text.spec().items() if key != "id"}
    examples = [source.example(i, 0, None) for i in range(len(source))]
    assert all({k: (a.shape, a.dtype) for k, a in example.items()} == spec for example in examples)
    documents = np.diff(text.tokens().documents)
    assert sum(example["weights"].sum() for example in examples) == sum(np.maximum(documents - 1, 0))
    others = [SlidingWindows("txjax_python_text", "validation[:5%]", length=n, stride=200) for n in (512, 513)]
    assert [other.open().fingerprint == source.fingerprint for other in others] == [True, False]


def test_user_errors():
    with pytest.raises(UserError, match=r"data.stride: expected at most data.length = 8, got 9"):
        SlidingWindows("txjax_python_text", "validation", length=8, stride=9, tokenizer=Bytes()).check()
    with pytest.raises(UserError, match="data: expected a document of two tokens"):
        SlidingSource(SlidingWindows(length=8, stride=1), tokens_of(1, 0, 1))
