"""The spoken digits and the telephone prompts, as the study of speech recognition reads them."""

import numpy as np
import pytest

from txjax.data import AllBut, Chained, LabelledAudio, Only, Utterances, eval_batches
from txjax.data.loading.rng import example_rng

pytestmark = pytest.mark.slow
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo")
DIGITS = dict(name="fsdd", rate=8000, stored_rate=8000, samples=28_000, length=28)


def test_digits_in_chains_of_five_speakers_and_of_the_sixth(tfds_dir):
    five = Utterances(**DIGITS, data_dir=str(tfds_dir), chained=Chained(), select=Only("speaker", SPEAKERS)).open()
    sixth = Utterances(**DIGITS, data_dir=str(tfds_dir), chained=Chained(), select=AllBut("speaker", SPEAKERS)).open()
    assert (len(five), len(sixth)) == (1000, 200)
    example = five.example(7, 2, example_rng(0, 2, 7))
    words = five.text(five.plan(7, example_rng(0, 2, 7)))
    symbols = example["transcript"][: example["transcript_length"]]
    assert 2 <= len(words.split()) <= 4 and len(symbols) == len(words)
    assert example["audio_length"] == five.sizes([(7, 2)], 0)[0][0] <= 28_000


def test_prompts_are_brought_from_8_to_16_khz(tfds_dir):
    fields = dict(
        name="phone_prompts_en", data_dir=str(tfds_dir), stored_rate=8000, rate_feature="rate", samples=100_000
    )
    data = Utterances(**fields, split="validation", text="{words}", length=200)
    at_8_khz = Utterances(**fields | {"samples": 50_000}, rate=8000, split="validation", text="{words}", length=200)
    source, stored = data.open(), at_8_khz.open()
    assert len(source) == 60 and source.lengths[0].of.tolist() == [2 * size for size in stored.lengths[0].of.tolist()]
    rng = np.random.default_rng(0)
    one, other = source.example(3, 0, rng)["audio"][::2], stored.example(3, 0, rng)["audio"]
    assert np.abs(one - other).max() < 0.05 * np.abs(other).max()


def test_digits_as_classes(tfds_dir):
    data = LabelledAudio(
        **{key: DIGITS[key] for key in ("name", "rate", "stored_rate")}, data_dir=str(tfds_dir), split="test"
    )
    data.samples, data.buckets = 12_000, (4000, 8000)
    data.fill_from_set()
    assert data.classes == 10
    batches = list(eval_batches(data.open(), batch_size=50))
    labels = np.concatenate([batch["label"] for batch in batches])
    assert np.bincount(labels).tolist() == [30] * 10
    assert {batch["audio"].shape[1] for batch in batches} <= {4000, 8000, 12_000}
