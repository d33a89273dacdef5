"""Records of several classes: from class labels, lists and texts, mixed, trained on and ranked."""

import dataclasses
import json

import numpy as np
import pytest
import sklearn.metrics
import tensorflow_datasets as tfds
from PIL import Image

import txjax
from txjax.data import CutMix, Images, JSONLines, LabelledAudio, LabelledText, Tables, Tags, WaveformMixup
from txjax.data.loading.rng import example_rng
from txjax.data.tfds.subset import Subset
from txjax.eval import LabelPrecision
from txjax.eval.classification.label_precision import average_precision
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification, SigmoidCrossEntropy
from txjax.optim import AdamW, Constant
from txjax.types import UserError

from helpers.arrays import numbers
from helpers.audio_set import file, noise, write_folder
from helpers.data_sets import write_records

NAMES = ("Speech", "Music", "Dog")
TAGS = ("Music, Speech", "", "Dog")
LABELS = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]


def tagged(folder, tags=TAGS, **fields) -> LabelledAudio:
    """Recordings of 900 samples of noise with these tags."""
    rows = [{"audio": f"{number}.wav", "tags": text} for number, text in enumerate(tags)]
    files = {row["audio"]: file(noise(900, number)) for number, row in enumerate(rows)}
    data_dir = write_folder(folder, files, {"train": rows, "test": rows})
    sizes = {"rate": 8000, "samples": 900, "label": Tags(names=NAMES)}
    return LabelledAudio(source=data_dir, **sizes | fields)


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
    rows = [{"audio": noise(900, number), "tags": tags} for number, tags in enumerate(([1, 0], [-1], [2]))]
    data_dir = write_records(tmp_path, "sounds", features, {"train": rows})
    source = LabelledAudio("sounds", data_dir=data_dir, rate=8000, stored_rate=8000, samples=900, label=Tags()).open()
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
        (
            {"label": Tags(names=NAMES[:2])},
            r"data\.label\.names: expected the classes of all texts, got 'Dog'.*in .*2.wav",
        ),
        ({"label": Tags()}, r"data\.label\.feature: .* a text of several classes needs data\.label\.names"),
        ({"classes": 4}, r"data\.classes: expected the 3 classes of .*got 4"),
        ({"label": Tags("tag", NAMES)}, r"data\.label\.feature: expected a feature of kind Text"),
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


def test_texts_of_several_classes(tmp_path):
    """Lists in JSON lines have the names that occur, in alphabetical order; a table's texts the config's."""
    rows = [{"text": f"sound {i}", "tags": tags.split(", ") if tags else []} for i, tags in enumerate(TAGS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.csv").write_text("text,tags\n" + "".join(f'sound {i},"{tags}"\n' for i, tags in enumerate(TAGS)))
    lists = LabelledText(
        source=JSONLines(str(tmp_path / "a.jsonl"), held_out=0), text=("text",), length=16, label=Tags()
    )
    texts = LabelledText(
        source=Tables(str(tmp_path / "a.csv"), held_out=0), text=("text",), length=16, label=Tags(names=NAMES)
    )
    assert lists.class_names() == tuple(sorted(NAMES)) and texts.class_names() == NAMES
    for data in (lists, texts):
        source = data.open()
        labels = np.stack([source.example(number, 0, example_rng(0, 0, number))["labels"] for number in range(3)])
        order = [data.class_names().index(name) for name in NAMES]
        np.testing.assert_array_equal(labels[:, order], LABELS)
        assert source.example(1, 0, example_rng(0, 0, 1))["weights"] == 1 and data.spec()["labels"].shape == (3,)
    with pytest.raises(UserError, match="data.subset: expected None beside Tags"):
        dataclasses.replace(texts, subset=Subset(per_class=1)).check()


def test_images_of_several_classes_are_mixed_and_trained_on(tmp_path):
    """The share of each image's classes is that of its pixels; the mean average precision of what was learned is 1."""
    folder = tmp_path / "photos"
    folder.mkdir()
    rows = []
    for number in range(24):
        bits = [number >> bit & 1 for bit in range(3)]
        Image.fromarray(np.tile(np.array(bits, np.uint8) * 255, (8, 8, 1))).save(folder / f"{number}.png")
        rows.append(
            {"file_name": f"{number}.png", "tags": [name for name, bit in zip(NAMES, bits, strict=True) if bit]}
        )
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    images = Images(source=str(folder), split="train", shape=(8, 8, 3), label=Tags(), mean=(0.0,), std=(1.0,))
    mixed = dataclasses.replace(images, mix=CutMix())
    source = mixed.open()
    order = [images.class_names().index(name) for name in NAMES]
    for number in range(len(source)):
        example = source.example(number, 0, example_rng(0, 0, number))
        np.testing.assert_allclose(example["labels"][order], example["image"].mean((0, 1)), atol=1e-5)
    experiment = Experiment(
        model=ViT(patch=8, head=Classes(3, MeanTokens()), width=16, depth=1, heads=2, class_token=None),
        objective=Classification(loss=SigmoidCrossEntropy()),
        data=images,
        evals={"all": LabelPrecision(data=images, every_steps=60)},
        optimizer=AdamW(peak_lr=1e-2, schedule=Constant()),
        num_steps=60,
        batch_size=8,
        trackers=(),
    )
    run = txjax.fit(experiment, tmp_path / "run")
    assert run.metrics[-1]["eval/all/map"] == 1.0
    photos = [{"image": (folder / row["file_name"]).read_bytes()} for row in rows]
    assert [set(prediction.labels) for prediction in run.predict(photos)] == [set(row["tags"]) for row in rows]
