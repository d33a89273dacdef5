"""Recordings with several classes: from class labels and from texts, mixed, trained on and ranked."""

import numpy as np
import pytest
import sklearn.metrics
import tensorflow_datasets as tfds

from txjax.data import TaggedAudio, WaveformMixup
from txjax.data.loading.rng import example_rng
from txjax.eval.classification.label_precision import average_precision
from txjax.types import UserError

from helpers.arrays import numbers
from helpers.audio_set import file, noise, write_folder
from helpers.data_sets import write_records

NAMES = ("Speech", "Music", "Dog")
TAGS = ("Music, Speech", "", "Dog")
LABELS = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]


def tagged(folder, tags=TAGS, **fields) -> TaggedAudio:
    """Recordings of 900 samples of noise with these tags."""
    rows = [{"audio": f"{number}.wav", "tags": text} for number, text in enumerate(tags)]
    files = {row["audio"]: file(noise(900, number)) for number, row in enumerate(rows)}
    data_dir = write_folder(folder, files, {"train": rows, "test": rows})
    sizes = {"rate": 8000, "samples": 900, "names": NAMES}
    return TaggedAudio(source=data_dir, **sizes | fields)


def test_classes_in_a_text(tmp_path):
    data = tagged(tmp_path)
    assert data.spec()["labels"].shape == (3,) and data.class_names() == NAMES
    source = data.open()
    examples = [source.example(number, 0, example_rng(0, 0, number)) for number in range(3)]
    np.testing.assert_array_equal([example["labels"] for example in examples], LABELS)
    assert [example["weights"] for example in examples] == [1, 1, 1]


def test_a_sequence_of_class_labels(tmp_path):
    features = {
        "audio": tfds.features.Tensor(shape=(None,), dtype=np.float32),
        "tags": tfds.features.Sequence(tfds.features.ClassLabel(names=NAMES)),
    }
    rows = [{"audio": noise(900, number), "tags": tags} for number, tags in enumerate(([1, 0], [], [2]))]
    data_dir = write_records(tmp_path, "sounds", features, {"train": rows})
    source = TaggedAudio("sounds", data_dir=data_dir, rate=8000, stored_rate=8000, samples=900).open()
    labels = [source.example(number, 0, example_rng(0, 0, number))["labels"] for number in range(3)]
    np.testing.assert_array_equal(labels, LABELS)


def test_labels_are_mixed_as_waveforms_are(tmp_path):
    """The share of the first recording, found from the samples, is that of its labels."""
    source = tagged(tmp_path, mix=WaveformMixup(probability=1.0)).open()
    signals = [noise(900, number) - noise(900, number).mean() for number in range(3)]
    partners = set()
    for epoch in range(8):
        example = source.example(0, epoch, example_rng(0, epoch, 0))
        shares, *_ = np.linalg.lstsq(np.stack(signals, 1), example["audio"], rcond=None)
        assert shares.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(example["labels"], shares @ np.array(LABELS), atol=1e-5)
        partners.add(int(np.abs(shares[1:]).argmax()) + 1 if shares[0] < 0.999 else 0)
    assert partners == {0, 1, 2}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"names": NAMES[:2]}, r"data\.names: expected Dog, a class of .*2.wav"),
        ({"names": ()}, r"data\.names: expected the names of the classes in the texts of tags"),
        ({"classes": 4}, r"data\.classes: expected the 3 classes of .*got 4"),
        (
            {"tags_feature": "tag"},
            r"data\.tags_feature: expected a feature of kind Sequence or Text",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        tagged(tmp_path, **fields).open()


def test_average_precision_is_of_the_classes_that_occur():
    labels = (numbers(30, 4) > 0.5).astype(np.float32)
    labels[:, 2] = 0
    scores = numbers(30, 4, seed=1)
    expected = sklearn.metrics.average_precision_score(labels[:, [0, 1, 3]], scores[:, [0, 1, 3]], average=None)
    np.testing.assert_array_equal(average_precision(labels, scores), expected)
    assert not len(average_precision(labels[:, 2:3], scores[:, 2:3]))
