"""The table of classification sets agrees with TFDS's own builders; any prepared set is one too."""

import pytest
import tensorflow_datasets as tfds

from txjax import config
from txjax.data import Channels, Flip, Multiply, Stretch
from txjax.data.images.image_sets import SETS, VTAB, image_set
from txjax.data.tfds.computed_labels import label_of
from txjax.sweep.resolve import resolve
from txjax.types import UserError

from helpers import photo_set
from helpers.photo_set import file, pixels


def test_classes_channels_and_splits_are_those_of_tfds(tmp_path):
    assert len(VTAB) == 19
    for name, known in SETS.items():
        features = tfds.builder(known.name, data_dir=tmp_path).info.features
        data = image_set(name, "train1000")
        assert label_of(data.label).check(features) == data.classes == known.classes, name
        assert (Channels(3) in data.transforms) == (features["image"].shape[-1] == 1), name


def test_the_protocol_of_a_thousand_examples():
    """800 to train on and 200 to choose by; the final run reads both, and the whole test split."""
    for name, known in VTAB.items():
        assert known.splits["train800"] == "train[:800]", name
        assert known.splits["train1000"] == f"train[:800]+{known.splits['valid200']}", name
    pets = VTAB["oxford_iiit_pet"].splits
    assert (pets["train"], pets["valid200"], pets["trainval"]) == ("train[:2944]", "train[2944:3144]", "train")
    assert VTAB["eurosat"].splits["test"] == "train[21600:]"
    assert VTAB["dsprites/label_orientation"].splits["valid200"] == "train[589824:590024]"
    assert VTAB["clevr/count_all"].splits["test"] == "validation"


def test_fields_and_transforms():
    data = image_set("dsprites/label_x_position", "trainval", Stretch(96), Flip(), size=96, corrupt="skip")
    assert data.transforms == (Multiply(255), Channels(3), Stretch(96), Flip())
    assert (data.name, data.shape, data.mean, data.corrupt) == ("dsprites", (96, 96, 3), (0.5,), "skip")
    assert image_set("cifar10", "test", name=None).name is None


def test_any_prepared_set(tmp_path):
    data_dir = photo_set.prepare(tmp_path, [file(pixels(i)) for i in range(4)])
    data = image_set("made_photos", "train", Stretch(6), size=6, data_dir=data_dir)
    assert data.classes == 3 and data.open().example(1, 0, None)["image"].shape == (6, 6, 3)
    with pytest.raises(UserError, match="data.label: .*did you mean label"):
        image_set("made_photos", "train", data_dir=data_dir, label="lable")


def test_user_errors(tmp_path):
    with pytest.raises(UserError, match="data.split: expected a part of cifar100: .*did you mean train800"):
        image_set("cifar100", "train80")
    with pytest.raises(UserError, match="data.name: expected one of .*or a prepared set, got 'cifar1000'.*cifar100"):
        image_set("cifar1000", "train", data_dir=str(tmp_path))


def test_fine_tuning_takes_any_set_and_size(root):
    found = config.load(f"{root / 'configs/vision/vit_finetune.py'}:vtab/clevr/count_all@L/16", [])
    assert (found.model.width, found.model.head.classes, found.model.positions.max_length) == (1024, 8, 577)
    assert found.data.split == "train[:800]+train[63000:63200]" and found.evals["test"].data.split == "validation"
    assert found.data.transforms == (Stretch(384),) and found.num_steps == 2500
    points, same = resolve(str(root / "configs/vision/vit_finetune.py"), [])
    assert len(points) == 20 and not same


def test_stretch_brings_both_sides_to_size():
    assert Stretch(5)(pixels(0), None).shape == (5, 5, 3)
