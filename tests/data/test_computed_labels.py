"""Classes that are computed from other features, by the formulas again."""

import pickle

import numpy as np
import pytest
from tensorflow_datasets import features as tfds_features

from txjax.data import ByName, Count, Grouped, Images, Multiply, Nearest, eval_batches
from txjax.types import UserError

from helpers import photo_set
from helpers.photo_set import file, objects, pixels

N = 8


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return photo_set.prepare(tmp_path_factory.mktemp("tfds"), [file(pixels(i)) for i in range(N)])


def labels(data_dir, label, classes):
    data = Images("made_photos", "train", data_dir, (10, 12, 3), classes=classes, label=label)
    (batch,) = eval_batches(data.open(), batch_size=N)
    assert data.class_names() == tuple(map(str, range(classes)))
    return batch["label"].tolist()


def test_neighbouring_classes_are_joined(data_dir):
    found = labels(data_dir, Grouped("label_angle", classes=40, groups=16), 16)
    assert found == [int(np.floor(5 * i % 40 / 2.5)) for i in range(N)]


def test_objects_are_counted(data_dir):
    assert labels(data_dir, Count(part="type", least=0, most=9), 10) == list(range(N))
    with pytest.raises(UserError, match=r"labels from 0 to 5 .*got '-1|-3"):
        labels(data_dir, Count(part="type", least=3, most=8), 6)


@pytest.mark.parametrize("kinds", [None, 2])
def test_the_nearest_object_is_between_two_thresholds(data_dir, kinds):
    thresholds = (-100.0, 0.5, 2.5, 999.0)
    kind = {} if kinds is None else {"kind": "type", "kinds": kinds}
    expected = []
    for i in range(N):
        distances = [each["location"][2] for each in objects(i) if kinds is None or each["type"] < kinds]
        nearest = min(distances, default=1000.0)
        expected.append(max(j for j, threshold in enumerate(thresholds) if threshold < nearest))
    found = labels(data_dir, Nearest(axis=2, thresholds=thresholds[1:], **kind), 4)
    assert found == expected and set(found) == {1, 3}


def test_user_errors(data_dir):
    for label, classes, said in [
        (Count(part="colour", most=9), 10, "data.label: expected features of objects: .*got 'colour'"),
        (Count("label"), 2, r"data.label.feature: expected a feature of kind Sequence \(the set has objects\)"),
        (Grouped("label_angle", classes=41, groups=4), 4, "data.label: expected classes=40 of label_angle"),
        (Count(part="type", most=9), 11, "data.classes: expected the 10 classes of made_photos, got 11"),
    ]:
        with pytest.raises(UserError, match=said):
            labels(data_dir, label, classes)


def test_multiply():
    image = np.asarray([0, 1, 1, 0], np.uint8).reshape(2, 2, 1)
    np.testing.assert_array_equal(Multiply(255)(image, None), 255 * image)
    with pytest.raises(UserError, match="values of at most 1 for Multiply, got 2"):
        Multiply(255)(image * np.uint8(2), None)


def test_names_are_those_of_a_model_in_any_order():
    """One synonym belongs to two classes of the model: it names neither, but where it is the whole name."""
    features = {"label": tfds_features.ClassLabel(names=["Crane", "tabby", "fox"])}
    label = ByName(names=("crane", "tabby, tabby cat", "crane, machine", "red fox, fox"))
    assert label.check(features) == 4 and label.class_names(features) == label.names
    class_of = pickle.loads(pickle.dumps(label.function(features)))
    assert [class_of(np.int64(value)) for value in (0, 1, 2, -1, 3)] == [0, 1, 3, -1, 4]
    with pytest.raises(UserError, match=r"data.label.names: .*got 'none for machine'; did you mean "):
        ByName(names=("machines",)).check({"label": tfds_features.ClassLabel(names=["machine"])})
