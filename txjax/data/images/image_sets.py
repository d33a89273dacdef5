"""Classification sets by name, as transfer is measured on: ViT's, and the 19 tasks of VTAB with its 1,000 examples.

Splits of VTAB are those of Zhai et al. 2019 (task_adaptation): where TFDS has no validation or test split, parts of
another one. Which images are the first 800 depends on the set's version in TFDS.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from txjax.data.images.images import Images
from txjax.data.images.transforms import Channels, Multiply, Transform
from txjax.data.tfds import records
from txjax.data.tfds.computed_labels import Count, Grouped, Nearest, label_of
from txjax.errors import UserError, near_misses


@dataclasses.dataclass(frozen=True)
class ImageSet:
    """A set for classification.

    Attributes:
      name: TFDS's name.
      classes: the number of classes.
      splits: TFDS's splits by part: `train`, `valid`, `trainval`, `test`, and VTAB's `train800`, `valid200`,
        `train1000`, which is both.
      fields: further fields of `Images`.
      before: transforms that bring its images to three channels of 0 to 255.
    """

    name: str
    classes: int
    splits: Mapping[str, str]
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    before: tuple[Transform, ...] = ()


def _splits(train: str, valid: str, test: str, valid200: str, trainval: str | None = None) -> dict[str, str]:
    few = {"train800": "train[:800]", "valid200": valid200, "train1000": f"train[:800]+{valid200}"}
    return {"train": train, "valid": valid, "trainval": trainval or f"{train}+{valid}", "test": test} | few


def _three_splits() -> dict[str, str]:
    """Three splits of TFDS."""
    return _splits("train", "validation", "test", "validation[:200]")


def _cut_splits(images: int, percent: int = 90, test: str = "test") -> dict[str, str]:
    """`train`, of which the last images are for validation, and a test split."""
    end = images * percent // 100
    return _splits(f"train[:{end}]", f"train[{end}:]", test, f"train[{end}:{end + 200}]", "train")


def _only_train(images: int, train: int, valid: int) -> dict[str, str]:
    """`train` alone: these percentages for training and validation, the rest to test."""
    end = images * train // 100
    last = images * train // 100 + images * valid // 100
    few = f"train[{end}:{end + 200}]"
    return _splits(f"train[:{end}]", f"train[{end}:{last}]", f"train[{last}:]", few, f"train[:{last}]")


_NORB = _splits("train", "test[:50%]", "test[50%:]", "test[:200]")
_CLEVR = _cut_splits(70_000, test="validation")
_SPRITES = _only_train(737_280, 80, 10)
_OBJECT_DISTANCES = (8.0, 8.5, 9.0, 9.5, 10.0)
_VEHICLE_DISTANCES = (8.0, 20.0, 999.0)
_CLEVR_COUNT = Count(part="size", least=3, most=10)
_CLEVR_DISTANCE = Nearest(part="pixel_coords", axis=2, thresholds=_OBJECT_DISTANCES)
_VEHICLE = Nearest(part="location", axis=2, thresholds=_VEHICLE_DISTANCES, kind="type", kinds=3)  # car, van, truck


def _sprites(attribute: str, classes: int) -> ImageSet:
    label = Grouped(attribute, classes=classes, groups=16)
    return ImageSet("dsprites", 16, _SPRITES, {"label": label}, (Multiply(255), Channels(3)))


def _norb(attribute: str, classes: int) -> ImageSet:
    return ImageSet("smallnorb", classes, _NORB, {"label": attribute}, (Channels(3),))


VTAB = {
    "caltech101": ImageSet("caltech101", 102, _cut_splits(3_060)),
    "cifar100": ImageSet("cifar100", 100, _cut_splits(50_000)),
    "dtd": ImageSet("dtd", 47, _three_splits()),
    "oxford_flowers102": ImageSet("oxford_flowers102", 102, _three_splits()),
    "oxford_iiit_pet": ImageSet("oxford_iiit_pet", 37, _cut_splits(3_680, percent=80)),
    "sun397": ImageSet("sun397/tfds", 397, _three_splits()),
    "svhn_cropped": ImageSet("svhn_cropped", 10, _cut_splits(73_257)),
    "patch_camelyon": ImageSet("patch_camelyon", 2, _three_splits()),
    "eurosat": ImageSet("eurosat/rgb", 10, _only_train(27_000, 60, 20)),
    "resisc45": ImageSet("resisc45", 45, _only_train(31_500, 60, 20)),
    "diabetic_retinopathy_detection": ImageSet("diabetic_retinopathy_detection/btgraham-300", 5, _three_splits()),
    "clevr/count_all": ImageSet("clevr", 8, _CLEVR, {"label": _CLEVR_COUNT}),
    "clevr/closest_object_distance": ImageSet("clevr", 6, _CLEVR, {"label": _CLEVR_DISTANCE}),
    "dmlab": ImageSet("dmlab", 6, _three_splits()),
    "dsprites/label_x_position": _sprites("label_x_position", 32),
    "dsprites/label_orientation": _sprites("label_orientation", 40),
    "kitti/closest_vehicle_distance": ImageSet("kitti", 4, _three_splits(), {"label": _VEHICLE}),
    "smallnorb/label_azimuth": _norb("label_azimuth", 18),
    "smallnorb/label_elevation": _norb("label_elevation", 9),
}
SETS = VTAB | {
    "cifar10": ImageSet("cifar10", 10, _cut_splits(50_000)),
    "imagenet2012": ImageSet("imagenet2012", 1000, _cut_splits(1_281_167, percent=99, test="validation")),
}


def image_set(task: str, part: str, *transforms: Transform, size: int = 224, **fields: Any) -> Images:
    """A classification set, or a task of one, with three channels, mean and standard deviation 0.5 as in ViT.

    Args:
      task: a key of `SETS`, such as `cifar100` or `clevr/count_all`; or any other set of TFDS with images and a class
        label, which must be prepared, since its classes are counted there.
      part: see `ImageSet`; of a set that isn't in `SETS`, its split.
      transforms: their output must be size x size pixels.
      size: height and width.
      fields: fields of `Images` that override these defaults. With `name=None` an evaluation uses the training data.

    Raises:
      UserError: an unknown part, or a set that is neither in `SETS` nor prepared.
    """
    known = SETS.get(task) or _prepared_set(task, part, fields)
    if part not in known.splits:
        expected = f"a part of {task}: {', '.join(known.splits)}"
        raise UserError("data.split", expected, part, near_misses(part, known.splits))
    set_fields: dict[str, Any] = {
        "name": known.name,
        "split": known.splits[part],
        "classes": known.classes,
        **known.fields,
    }
    usual: dict[str, Any] = {"shape": (size, size, 3), "mean": (0.5,), "std": (0.5,)}
    return Images(transforms=(*known.before, *transforms), **set_fields | usual | fields)


def _prepared_set(name: str, split: str, fields: Mapping[str, Any]) -> ImageSet:
    """A set that is not in `SETS`, by its metadata."""
    try:
        features = records.check(name, split, fields.get("data_dir"))
    except UserError as error:
        near = near_misses(name, SETS)
        raise UserError("data.name", f"one of {', '.join(SETS)}, or a prepared set", name, near, str(error)) from error
    classes = label_of(fields.get("label", "label")).check(features)
    image = records.check_feature("data.image_feature", fields.get("image_feature", "image"), features, ("Image",))
    return ImageSet(name, classes, {split: split}, before=() if image.shape[-1] == 3 else (Channels(3),))
