"""Prepared TFDS sets with every form of the feature `Audio` are read without TensorFlow, and their lengths before."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds

from txjax.data import LabelledAudio, Utterances
from txjax.data.tfds import records
from txjax.data.tfds.audio_feature import Audio
from txjax.types import UserError

from helpers.audio_set import file, noise
from helpers.data_sets import RecordsBuilder, write_records

SIZES = (1000, 1501, 800)


def integers(size: int, dtype: str, channels: int = 1) -> np.ndarray:
    return (noise(size, size, channels) * 2**15).astype(dtype)


FORMS = {
    "int64 samples": (Audio(sample_rate=8000), lambda size: integers(size, "int64")),
    "int16 samples": (Audio(sample_rate=8000, dtype=np.int16), lambda size: integers(size, "int16")),
    "compressed samples": (
        Audio(sample_rate=8000, dtype=np.int16, encoding="zlib"),
        lambda size: integers(size, "int16"),
    ),
    "samples as bytes": (
        Audio(sample_rate=8000, dtype=np.int32, encoding="bytes"),
        lambda size: integers(size, "int32"),
    ),
    "two channels": (
        Audio(sample_rate=8000, shape=(None, 2), dtype=np.int16),
        lambda size: np.repeat(integers(size, "int16")[:, None], 2, 1),
    ),
    "a tensor of 16 bits": (
        tfds.features.Tensor(shape=(None,), dtype=np.int16, encoding="zlib"),
        lambda size: integers(size, "int16"),
    ),
    "a tensor of floats": (tfds.features.Tensor(shape=(None,), dtype=np.float32), lambda size: noise(size, size)),
    "a tensor with any number of channels": (
        tfds.features.Tensor(shape=(None, None), dtype=np.int16, encoding="zlib"),
        lambda size: np.repeat(integers(size, "int16")[:, None], 3, 1),
    ),
    "WAV files": (Audio(file_format="wav", lazy_decode=True), lambda size: file(noise(size, size))),
    "FLAC files": (
        Audio(file_format="flac", lazy_decode=True, dtype=np.int32),
        lambda size: file(noise(size, size), kind="FLAC"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_stored_audio(tmp_path, form):
    feature, stored = FORMS[form]
    features = {"audio": feature, "text": tfds.features.Text()}
    rows = [{"audio": stored(size), "text": f"text {size}"} for size in SIZES]
    data_dir = write_records(tmp_path, "squeaks", features, {"train": rows})
    if isinstance(feature, Audio):
        written = json.loads((tmp_path / "squeaks/1.0.0/features.json").read_text())["featuresDict"]["features"]
        assert written["audio"]["pythonClassName"] == "tensorflow_datasets.core.features.audio_feature.Audio"
    data = Utterances("squeaks", data_dir=data_dir, rate=8000, stored_rate=8000, samples=1600, text="{text}")
    data.tokenizer.alphabet += "0158"
    source = data.open()
    assert source.lengths[0].of.tolist() == list(SIZES)
    for index, size in enumerate(SIZES):
        example = source.example(index, 0, np.random.default_rng(0))
        assert example["audio_length"] == size and not example["audio"][size:].any()
        np.testing.assert_array_equal(example["audio"][:size], noise(size, size))
        assert data.tokenizer.decode(example["transcript"][: example["transcript_length"]]) == f"text {size}"


def test_a_features_file_of_before_tfds_4_6():
    value = {"file_format": "wav", "shape": [None], "dtype": "int64", "sample_rate": 8000, "lazy_decode": True}
    feature = Audio.from_json_content(value)
    assert feature.lazy_decode and feature.sample_rate == 8000 and feature.shape == ()


@pytest.mark.parametrize(
    ("name", "feature"),
    [("librispeech", "speech"), ("speech_commands", "audio"), ("ljspeech", "speech"), ("common_voice", "voice")],
)
def test_sets_whose_code_is_installed_say_their_features(tmp_path, name, feature):
    assert type(records.features(name, str(tmp_path))[feature]) is Audio


def test_a_prepared_set_of_tfds_is_read_by_its_name_alone_and_without_tensorflow(tmp_path):
    labels = tfds.features.ClassLabel(names=["down", "go"])
    rows = [{"audio": integers(900, "int64"), "label": n} for n in range(2)]
    fields = {"name": "speech_commands", "features": {"audio": Audio(sample_rate=8000), "label": labels}}
    version = tfds.core.Version("0.0.3")
    fields |= {"splits": {"train": rows}, "VERSION": version}
    builder = type("speech_commands", (RecordsBuilder,), fields, skip_registration=True)(data_dir=tmp_path)
    builder.download_and_prepare(file_format="array_record")
    code = (
        "import sys; from txjax.data import LabelledAudio; "
        f"data = LabelledAudio('speech_commands', data_dir={str(tmp_path)!r}, samples=1000); "
        "source = data.open(); print(len(source), source.lengths[0].of.tolist(), 'tensorflow' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "2 [900, 900] False\n"


def test_a_rate_that_no_one_states(tmp_path):
    features = {
        "audio": tfds.features.Tensor(shape=(None,), dtype=np.int16),
        "label": tfds.features.ClassLabel(num_classes=2),
    }
    rows = [{"audio": integers(900, "int16"), "label": 0}]
    data_dir = write_records(tmp_path, "squeaks", features, {"train": rows})
    with pytest.raises(UserError, match=r"data.stored_rate: expected samples a second of squeaks/1.0.0, which doesn't"):
        LabelledAudio("squeaks", data_dir=data_dir, rate=8000, samples=1000).open()


def test_rates_by_a_feature_of_each_record(tmp_path):
    features = {
        "audio": tfds.features.Tensor(shape=(None,), dtype=np.int16),
        "rate": tfds.features.Scalar(np.int32),
        "label": tfds.features.ClassLabel(num_classes=2),
    }
    rows = [{"audio": integers(900, "int16"), "label": 1, "rate": rate} for rate in (4000, 8000, 16000)]
    data_dir = write_records(tmp_path, "squeaks", features, {"train": rows})
    data = LabelledAudio("squeaks", data_dir=data_dir, rate=8000, rate_feature="rate", samples=1800)
    assert data.open().lengths[0].of.tolist() == [1800, 900, 450]
    data.stored_rate = 8000
    with pytest.raises(UserError, match=r"of 8000 samples a second, got '2 with others, the first: 4000 in .*record 0"):
        data.open()


def test_features_that_are_no_audio(tmp_path):
    features = {
        "audio": tfds.features.Tensor(shape=(2, 2, 2), dtype=np.int16),
        "label": tfds.features.ClassLabel(num_classes=2),
    }
    rows = [{"audio": np.zeros((2, 2, 2), np.int16), "label": 0}]
    data_dir = write_records(tmp_path, "squeaks", features, {"train": rows})
    message = (
        r"data.audio_feature: expected whole numbers or floats of shape \(T,\) or \(T, channels\), got 'int16 of sh"
    )
    with pytest.raises(UserError, match=message):
        LabelledAudio("squeaks", data_dir=data_dir).check()
