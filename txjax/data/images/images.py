"""Labelled images: transformed, normalized, mixed, in this order."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.images.image_data import ImageData
from txjax.data.images.image_reader import ImageReader
from txjax.data.images.image_records import ImageRecords
from txjax.data.images.mixing import Mixing
from txjax.data.images.transforms import Transform
from txjax.data.tfds.computed_labels import ComputedLabel, label_of
from txjax.data.tfds.subset import Subset
from txjax.data.tfds.tags import Tags
from txjax.errors import UserError
from txjax.types import config_field, spec


@dataclasses.dataclass
class Images(ImageData):
    """Images with a class label, or with several.

    An example: image float32 [H W C], see `ImageData`; label int32 []; weights float32 [], 1, or 0 if the set has no
    label (-1) or the image was left out. With `mix` also other_label int32 [] and mix float32 [], the share of
    `label`. With `label=Tags(...)` labels float32 [C] in their place. With `clean` also clean_image, like image.

    Attributes:
      classes: the number of classes. If None, the set's.
      label: the name of the feature that is the class; or what computes the class from another one; or `Tags`.
      mix: mixes a second example into the image, for training only. If None, images are not mixed.
      subset: a few examples of each class. If None, the whole split.
      clean: the transforms of clean_image, the same example without augmentations, such as a teacher sees; () are none.
        If None, there is no such image. It is never mixed.
    """

    classes: int | None = config_field(None, at_least=1)
    label: ComputedLabel | str = describing_field("label")
    mix: Mixing | None = None
    subset: Subset | None = None
    clean: tuple[Transform, ...] | None = None

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        label = label_of(self.label)
        specs = label.specs if self.mix is None else label.mixed_specs
        scalars = {"id": spec((), "int32"), "weights": spec((), "float32")} | specs(self._count_classes)
        names = ("image",) if self.clean is None else ("image", "clean_image")
        return scalars | {name: spec(tuple(self.shape), "float32") for name in names}

    def class_features(self) -> tuple[str, ...]:
        return label_of(self.label).class_features()

    def check(self) -> None:
        features = self.check_images()
        if self.classes not in (None, classes := label_of(self.label).check(features)):
            raise UserError("data.classes", f"the {classes} classes of {self.record_split.label}", self.classes)
        for transform in self.clean or ():
            transform.check()
        if self.mix is not None:
            self.mix.check()
        if self.subset is not None and isinstance(self.label, Tags):
            raise UserError("data.subset", "None beside Tags: an image has several classes", self.subset)

    def _count_classes(self) -> int:
        return self.classes or label_of(self.label).check(self.record_split.features())

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = self._count_classes()

    def class_names(self) -> tuple[str, ...]:
        return label_of(self.label).class_names(self.record_split.check())

    def open(self) -> Source:
        self.check()
        source = ImageSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


class ImageSource:
    """The images of a split, by index."""

    def __init__(self, images: Images):
        self._images = images
        where = images.record_split
        features = where.check()
        self._kind = label_of(images.label)
        self._feature = self._kind.feature
        self._classes = self._kind.check(features)
        self._label_of = self._kind.function(features)
        self._records = ImageRecords(where, images.image_feature, [self._feature], images.corrupt)
        self._numbers: np.ndarray | None = None  # record numbers of the subset; all records if None
        self.fingerprint = self._records.fingerprint
        if images.subset is not None:
            labels = where.open([self._feature])
            self._numbers = images.subset.choose(
                lambda number: self._label(number, labels[number]), len(labels), self._classes
            )
            content = self.fingerprint.encode() + self._numbers.tobytes()
            self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
        self._reader = ImageReader(images, self._records, len(self))

    def __len__(self) -> int:
        return len(self._records) if self._numbers is None else len(self._numbers)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        image, label, weight = self._read(index, rng, self._images.transforms)
        clean = self._images.clean
        views = {} if clean is None else {"clean_image": self._read(index, rng, clean)[0]}
        if self._images.mix is None:
            return views | {"image": image, "weights": np.array(weight, np.float32)} | self._kind.target(label)
        other, other_label, other_weight = self._read(int(rng.integers(len(self))), rng, self._images.transforms)
        image, share = self._images.mix(image, other, rng)
        target = self._kind.mixed_target(label, other_label, share)
        return views | {"image": image, "weights": np.array(weight * other_weight, np.float32)} | target

    def _read(
        self, index: int, rng: np.random.Generator, transforms: Sequence[Transform]
    ) -> tuple[np.ndarray, Any, bool]:
        """An image, transformed and normalised; its label; whether it has both. Zeros for one left out."""
        number = index if self._numbers is None else int(self._numbers[index])
        image, record = self._reader.read(number, transforms, rng)
        label = self._label(number, record) if record else self._kind.empty(self._classes)
        if image is None:
            return np.zeros(self._images.shape, np.float32), label, False
        return image, label, self._kind.is_known(label)

    def _label(self, number: int, record: Example) -> Any:
        """The label of a record. Raises UserError, naming the record, for one that is no class."""
        try:
            label = self._label_of(record[self._feature])
        except UserError as error:
            raise error.with_hint(f"in {self._records.place(number)}") from None
        if not self._kind.is_valid(label, self._classes):
            expected = f"labels from 0 to {self._classes - 1} in {self._records.name}, or -1 for none"
            raise UserError("data.label", expected, f"{label} in {self._records.place(number)}")
        return label
