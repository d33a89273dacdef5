"""Recordings with a class: what is long may be cut, and a second one mixed in."""

import logging

import numpy as np

from txjax.data import LabelledAudio, WaveformMixup
from txjax.data.loading.rng import example_rng

from helpers.audio_set import file, noise, write_folder


def test_a_long_recording_with_a_class_may_be_cut(tmp_path, caplog):
    files = {"a.wav": file(noise(1000))}
    rows = [{"audio": "a.wav", "label": "x"}]
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows})
    data = LabelledAudio(source=data_dir, rate=8000, samples=900, too_long="cut")
    with caplog.at_level(logging.WARNING, "txjax"):
        example = data.open().example(0, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(example["audio"], noise(1000)[:900])
    assert example["audio_length"] == 900 and "1 of 1 records are longer than samples = 900 and lose" in caplog.text


def test_a_second_recording_is_mixed_in(tmp_path):
    files = {"a.wav": file(noise(900, 1)), "b.wav": file(noise(700, 2))}
    rows = [{"audio": name, "label": label} for name, label in zip(files, "xy", strict=True)]
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows})
    mix = WaveformMixup(probability=1.0)
    source = LabelledAudio(source=data_dir, rate=8000, samples=900, mix=mix).open()
    pairs = set()
    for epoch in range(8):
        example = source.example(0, epoch, example_rng(0, epoch, 0))
        other, share = int(example["other_label"]), example["mix"]
        one, two = (signal - signal.mean() for signal in (noise(900, 1), (noise(900, 1), noise(700, 2))[other]))
        expected = share * one + (1 - share) * np.pad(two, (0, 900 - len(two)))
        np.testing.assert_allclose(example["audio"], expected, atol=1e-6)
        assert example["label"] == 0 and example["weights"] == 1 and example["audio_length"] == 900
        pairs.add(other)
    assert pairs == {0, 1}
