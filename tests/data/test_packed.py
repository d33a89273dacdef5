"""Packed windows have every document once, whole if it fits, as packed by Grain's packer."""

import numpy as np
import pytest

from txjax.data import Bytes, NextTokenPacked, PackedText, train_batches
from txjax.data.loading import disk_cache
from txjax.data.text.packed import PackedSource, cut_documents
from txjax.data.text.token_cache import Tokens

pytestmark = pytest.mark.claim("Data", "packed windows equal Grain's")

LENGTHS = (3, 0, 12, 1, 7, 7, 2, 30, 0, 5, 16, 8, 9, 1, 1, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "cache_dir", lambda: tmp_path)


def tokens_of(*lengths):
    """Documents of these lengths; the token at position p of document d is 100 d + p."""
    documents = np.concatenate([[0], np.cumsum(lengths)])
    values = np.concatenate([100 * d + np.arange(length) for d, length in enumerate(lengths)])
    return Tokens(values, documents, "print")


def windows(kind, length, lengths=LENGTHS):
    source = PackedSource(kind(length=length), tokens_of(*lengths))
    return [source.example(i, 0, None) for i in range(len(source))]


@pytest.mark.parametrize("length", [1, 8, 50])
def test_every_token_is_shown_once_in_its_place(length):
    shown = []
    for example in windows(PackedText, length):
        filled = example["segments"] > 0
        np.testing.assert_array_equal(example["weights"], filled.astype(np.float32))
        assert not example["tokens"][~filled].any() and not example["positions"][~filled].any()
        assert list(filled) == sorted(filled, reverse=True)  # padding is at the end
        for segment in range(1, example["segments"].max() + 1):
            part = example["tokens"][example["segments"] == segment]
            np.testing.assert_array_equal(example["positions"][example["segments"] == segment], np.arange(len(part)))
            np.testing.assert_array_equal(part, part[0] + np.arange(len(part)))  # one document, in order
            document, first = divmod(int(part[0]), 100)
            assert first % length == 0 and len(part) == min(length, LENGTHS[document] - first)
            shown += part.tolist()
    assert sorted(shown) == sorted(tokens_of(*LENGTHS).tokens.tolist())


@pytest.mark.parametrize("length", [8, 50])
def test_every_token_but_a_documents_first_is_a_target_once(length):
    targets = []
    for example in windows(NextTokenPacked, length):
        filled = example["weights"] > 0
        np.testing.assert_array_equal(filled, example["segments"] > 0)
        np.testing.assert_array_equal(example["targets"][filled], example["tokens"][filled] + 1)
        targets += example["targets"][filled].tolist()
    assert sorted(targets) == [t for t in sorted(tokens_of(*LENGTHS).tokens.tolist()) if t % 100]


def test_windows_are_those_of_grains_packer():
    import grain
    from grain.experimental import BestFitPackIterDataset

    tokens = tokens_of(*np.random.default_rng(0).integers(0, 40, 400))
    arrays = [{"tokens": tokens.read(start, size)} for start, size in cut_documents(tokens.documents, 16, 0)]
    packed = BestFitPackIterDataset(
        grain.MapDataset.source(arrays).to_iter_dataset(),
        length_struct={"tokens": 16},
        num_packing_bins=128,
        shuffle_bins=False,
    )
    source = PackedSource(PackedText(name="txjax_python_text", length=16), tokens)
    count = 0
    for theirs in packed:
        ours = source.example(count, 0, None)
        np.testing.assert_array_equal(ours["tokens"], theirs["tokens"])
        np.testing.assert_array_equal(ours["segments"], theirs["tokens_segment_ids"])
        np.testing.assert_array_equal(ours["positions"], theirs["tokens_positions"])
        count += 1
    assert count == len(source)


def test_the_plan_is_cached(monkeypatch):
    tokens = tokens_of(*LENGTHS)
    first = PackedSource(PackedText(name="txjax_python_text", length=8), tokens)
    prints = {
        PackedSource(kind(length=n), tokens).fingerprint for kind in (PackedText, NextTokenPacked) for n in (8, 9)
    }
    assert len(prints) == 4 and first.fingerprint in prints
    monkeypatch.setattr("grain.experimental.BestFitPackIterDataset", lambda *_, **__: pytest.fail("packed again"))
    assert len(PackedSource(PackedText(name="txjax_python_text", length=8), tokens)) == len(first)


def test_packing_of_real_text_and_resume():
    text = NextTokenPacked(name="txjax_python_text", split="validation[:20%]", length=512, tokenizer=Bytes())
    source = text.open()
    examples = [source.example(i, 0, None) for i in range(len(source))]
    spec = {key: (s.shape, s.dtype) for key, s in text.spec().items() if key != "id"}
    assert all({k: (a.shape, a.dtype) for k, a in example.items()} == spec for example in examples)
    documents = np.diff(text.tokens().documents)
    assert sum(e["weights"].sum() for e in examples) == sum(np.maximum(documents - 1, 0))
    straight, later = (train_batches(source, batch_size=4, seed=0, start_step=step) for step in (0, 5))
    for _ in range(5):
        next(straight)
    for _ in range(3):
        a, b = next(straight), next(later)
        assert all(np.array_equal(a[key], b[key]) for key in a)
    straight.close()
    later.close()
