"""Recordings and transcripts that no example can be made of: an error with the record's name, or a counted skip."""

import logging

import numpy as np
import pytest

from txjax.data import AudioChecks, Speed, Utterances, train_batches
from txjax.data.tfds.records import ChangedData
from txjax.types import UserError

from helpers.audio_set import file, noise, write_folder

GOOD = file(noise(900))
STUCK = np.concatenate([noise(800), np.ones(100, np.float32)])
FAULTS = {
    "empty file": (b"", "one", "an empty file"),
    "no samples": (file(noise(0)), "one", "no samples"),
    "short": (file(noise(199)), "one", "shorter than 0.025 s, with 199 samples"),
    "truncated WAV": (GOOD[:1000], "one", "truncated: 844 bytes of the declared samples are missing"),
    "header alone": (GOOD[:30], "one", "damaged or truncated: Error in WAV file. No 'data' chunk marker."),
    "another kind": (b"ID3" + bytes(900), "one", "neither WAV nor FLAC"),
    "ogg in a WAV's name": (file(noise(900), kind="OGG", subtype="VORBIS"), "one", "neither WAV nor FLAC"),
    "mu-law": (file(noise(900), subtype="ULAW"), "one", "samples of ULAW, which are neither integers nor floats"),
    "no transcript": (GOOD, " ", "an empty transcript"),
    "letters": (GOOD, "Één", "letters outside of the alphabet: 'Éé' in 'Één'"),
}
# What shows only in the samples: at once if they are resampled, or else when they are read.
FAULTS_OF_SAMPLES = {
    "silent": (file(np.zeros(900)), "one", "silent"),
    "clipped": (file(STUCK), "one", "clipped: 11% of the samples are at full scale or beyond"),
    "NaN": (file(np.where(STUCK == 1, np.nan, STUCK), subtype="FLOAT"), "one", "samples that are not finite"),
    "truncated FLAC": (file(noise(9000), kind="FLAC")[:3000], "one", "damaged or truncated: Error : flac decoder lost"),
}


def data_of(folder, fault, **fields):
    content, text, _ = (FAULTS | FAULTS_OF_SAMPLES)[fault]
    files = {"0.wav": GOOD, "bad.flac" if "FLAC" in fault else "bad.wav": content, "2.wav": GOOD}
    rows = [{"audio": name, "text": "one" if name != list(files)[1] else text, "label": "x"} for name in files]
    data_dir = write_folder(folder, files, {"train": rows, "test": rows})
    return Utterances(**dict(source=data_dir, rate=8000, samples=18000) | fields)


@pytest.mark.parametrize("fault", FAULTS)
def test_before_training(tmp_path, fault, caplog):
    message = rf"data.unusable: expected usable recordings, got .*bad.wav: {FAULTS[fault][2]}"
    message = message.replace("'", ".")
    with pytest.raises(UserError, match=message) as error:
        data_of(tmp_path, fault).open()
    assert "\n" not in str(error.value)
    with caplog.at_level(logging.WARNING, "txjax"):
        source = data_of(tmp_path, fault, unusable="skip").open()
    assert len(source) == 2 and "1 of 3 records are unusable and left out, the first: /" in caplog.text


@pytest.mark.parametrize("fault", FAULTS_OF_SAMPLES)
def test_in_training(tmp_path, fault, caplog):
    message = rf"data.unusable: expected usable recordings, got .*bad\..*: {FAULTS_OF_SAMPLES[fault][2]}"
    with pytest.raises(UserError, match=message):
        for _ in train_batches(data_of(tmp_path, fault).open(), batch_size=3, seed=0):
            pass
    with caplog.at_level(logging.WARNING, "txjax"):
        source = data_of(tmp_path, fault, unusable="skip").open()
        batches = train_batches(source, batch_size=3, seed=0)
        batch = next(batches)
        batches.close()
    weights = dict(zip(batch["id"].tolist(), batch["weights"].tolist(), strict=True))
    assert weights == {0: 1, 1: 0, 2: 1} and np.isfinite(batch["audio"]).all()
    row = batch["id"].tolist().index(1)
    assert not batch["audio"][row].any() and batch["audio_length"][row] == batch["transcript_length"][row] == 0
    assert "is left out (1 so far)" in caplog.text


@pytest.mark.parametrize("fault", FAULTS_OF_SAMPLES)
def test_before_training_where_recordings_are_resampled(tmp_path, fault):
    with pytest.raises(UserError, match=rf"got .*bad\..*: {FAULTS_OF_SAMPLES[fault][2]}"):
        data_of(tmp_path, fault, rate=16000).open()
    assert len(data_of(tmp_path, fault, rate=16000, unusable="skip").open()) == 2


def test_bounds_are_settings(tmp_path):
    for fault, checks in (("short", AudioChecks(shortest=0.01)), ("clipped", AudioChecks(clipped=0.2))):
        source = data_of(tmp_path / fault, fault, checks=checks).open()
        assert source.example(1, 0, np.random.default_rng(0))["weights"] == 1
    quiet = data_of(tmp_path / "quiet", "clipped", checks=AudioChecks(silence=0.75, clipped=1)).open()
    with pytest.raises(UserError, match="silent"):
        quiet.example(0, 0, np.random.default_rng(0))


def test_records_that_are_too_long(tmp_path, caplog):
    sizes, texts = (900, 1000, 901), ("one", "two", "three")
    files = {f"{size}.wav": file(noise(size)) for size in sizes}
    rows = [{"audio": name, "text": text} for name, text in zip(files, texts, strict=True)]
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows})
    fields = dict(source=data_dir, rate=8000)
    message = (
        r"data.too_long: expected records of at most samples = 900.*got '2 of 3 records longer, the first: .*1000 s"
    )
    with pytest.raises(UserError, match=message):
        Utterances(**fields, samples=900).open()
    with pytest.raises(UserError, match=r"4 symbols \(data.length\), got '1 of 3 .*901.wav: 901 samples, 5 symbols"):
        Utterances(**fields, samples=1000, length=4).open()
    with pytest.raises(UserError, match=r"samples = 1000 at the slowest speed.*1 of 3 .*1000.wav"):
        Utterances(**fields, samples=1000, speed=Speed((0.91, 1))).open()
    with caplog.at_level(logging.WARNING, "txjax"):
        assert len(Utterances(**fields, samples=901, length=4, too_long="drop").open()) == 1
    assert "2 of 3 records are longer than samples = 901, 4 symbols (data.length) and are left out" in caplog.text
    with pytest.raises(UserError, match=r"data: expected at least one usable record"):
        Utterances(**fields, samples=899, too_long="drop").open()


def test_a_rate_that_is_not_the_stated_one(tmp_path):
    message = r"data.stored_rate: expected recordings of 16000 samples a second, got '3 with others, the first: 8000 in"
    with pytest.raises(UserError, match=message):
        data_of(tmp_path, "letters", stored_rate=16000).open()


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "soxr" else True)
    with pytest.raises(UserError, match=r"data: expected the package soxr .*pip install 'txjax\[audio\]'"):
        data_of(tmp_path, "letters").check()


@pytest.mark.parametrize("unusable", ["refuse", "skip"])
def test_a_recording_that_has_changed_is_not_left_out(tmp_path, unusable):
    rows = [{"audio": "0.wav", "text": "one", "label": "x"}]
    folder = write_folder(tmp_path, {"0.wav": GOOD}, {"train": rows, "test": rows})
    source = Utterances(source=folder, rate=8000, samples=18000, unusable=unusable).open()
    (tmp_path / "0.wav").write_bytes(GOOD + b"\0")
    with pytest.raises(ChangedData, match="0.wav has changed since the run began"):
        next(train_batches(source, batch_size=1, seed=0))
