"""Labelled images: transformed, normalized, mixed, in this order."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Example, Source, TFDSDataset, describing_field
from txjax.data.images.image_records import ImageRecords, Normaliser, check_normalisation, check_pixels
from txjax.data.images.mixing import Mixing
from txjax.data.images.transforms import Transform
from txjax.data.tfds import records
from txjax.data.tfds.computed_labels import ComputedLabel
from txjax.data.tfds.subset import Subset
from txjax.types import UserError, config_field, require, spec

MEMORY = 256 << 20  # bytes of decoded images; an image that fits into its share of them is decoded once


@dataclasses.dataclass
class Images(TFDSDataset):
    """Images with a class label.

    An example: image float32 [H W C], (pixels / 255 - mean) / std; label int32 []; weights float32 [], 1, or 0 if
    the set has no label (-1) or the image was left out. With `mix` also other_label int32 [] and mix float32 [], the
    share of `label`. With `clean` also clean_image, like image.

    Attributes:
      shape: height, width and channels, after the transforms.
      classes: the number of classes. If None, the set's.
      image_feature: the name of the set's image feature.
      label_feature: the name of the set's label feature.
      label: computes the class from another feature, where no feature is the class. If None, `label_feature` is.
      corrupt: what happens to an image that cannot be decoded: "refuse" is an error that names its record; "skip"
        leaves it out, as an example of weight 0, with a line in the log and their number so far.
      mean: the mean of the pixels (/ 255), one for all channels or one per channel.
      std: their standard deviation, likewise.
      transforms: applied in this order; augmentations belong only in the training set's config.
      mix: mixes a second example into the image, for training only. If None, images are not mixed.
      subset: a few examples of each class. If None, the whole split.
      clean: the transforms of clean_image, the same example without augmentations, such as a teacher sees; () are none.
        If None, there is no such image. It is never mixed.
    """

    shape: tuple[int, int, int] = describing_field((8, 8, 1))
    classes: int | None = config_field(None, at_least=1)
    image_feature: str = describing_field("image")
    label_feature: str = describing_field("label")
    label: ComputedLabel | None = describing_field(None)
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))
    mean: tuple[float, ...] = describing_field((0.5,))
    std: tuple[float, ...] = describing_field((0.5,))
    transforms: tuple[Transform, ...] = ()
    mix: Mixing | None = None
    subset: Subset | None = None
    clean: tuple[Transform, ...] | None = None

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        scalars = {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")}
        if self.mix is not None:
            scalars |= {"other_label": spec((), "int32"), "mix": spec((), "float32")}
        names = ("image",) if self.clean is None else ("image", "clean_image")
        return scalars | {name: spec(tuple(self.shape), "float32") for name in names}

    def check(self) -> None:
        features = records.check(self.name, self.split, self.data_dir)
        check_pixels(self.image_feature, features)
        require("PIL", "pillow", "data.name")
        if self.classes not in (None, classes := self._classes(features)):
            raise UserError("data.classes", f"the {classes} classes of {self.name}", self.classes)
        check_normalisation(self.mean, self.std, self.shape[2])
        for transform in (*self.transforms, *(self.clean or ())):
            transform.check()
        if self.mix is not None:
            self.mix.check()

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = self._classes(records.features(self.name, self.data_dir))

    def _classes(self, features: Any) -> int:
        """The number of classes by the set's features."""
        if self.label is not None:
            return self.label.check(features)
        return int(
            records.check_feature("data.label_feature", self.label_feature, features, ("ClassLabel",)).num_classes
        )

    def class_names(self) -> tuple[str, ...]:
        if self.label is not None:
            features = records.check(self.name, self.split, self.data_dir)
            return self.label.class_names(features)
        return tuple(records.check(self.name, self.split, self.data_dir)[self.label_feature].names)

    def open(self) -> Source:
        self.check()
        source = ImageSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


class ImageSource:
    """The images of a split, by index."""

    def __init__(self, images: Images):
        self._images = images
        self._feature = images.label_feature if images.label is None else images.label.feature
        where = images.name, images.split, images.data_dir
        features = records.check(*where)
        self._classes = images._classes(features)
        self._label_of = int if images.label is None else images.label.function(features)
        self._records = ImageRecords(where, images.image_feature, [self._feature], images.corrupt)
        self._normalised = Normaliser(images.mean, images.std, *images.shape[1:])
        self._numbers: np.ndarray | None = None  # record numbers of the subset; all records if None
        self.fingerprint = self._records.fingerprint
        if images.subset is not None:
            labels = records.Records(*where, [self._feature])
            self._numbers = images.subset.choose(
                lambda number: self._label(number, labels[number]), len(labels), self._classes
            )
            content = self.fingerprint.encode() + self._numbers.tobytes()
            self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
        self._kept: dict[int, tuple[np.ndarray | None, np.ndarray]] = {}
        self._largest = MEMORY // max(1, len(self))  # bytes of an image that is kept

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, each of which keeps its own decoded images."""
        return vars(self) | {"_kept": {}}

    def __len__(self) -> int:
        return len(self._records) if self._numbers is None else len(self._numbers)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        image, label, weight = self._read(index, rng, self._images.transforms)
        clean = self._images.clean
        views = {} if clean is None else {"clean_image": self._read(index, rng, clean)[0]}
        if self._images.mix is None:
            return views | {"image": image, "label": label, "weights": np.array(weight, np.float32)}
        other, other_label, other_weight = self._read(int(rng.integers(len(self))), rng, self._images.transforms)
        image, share = self._images.mix(image, other, rng)
        return views | {
            "image": image,
            "label": label,
            "other_label": other_label,
            "mix": np.array(share, np.float32),
            "weights": np.array(weight * other_weight, np.float32),
        }

    def _read(
        self, index: int, rng: np.random.Generator, transforms: Sequence[Transform]
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """An image, transformed and normalised; its label, int32 []; whether it has both. Zeros for one left out."""
        pixels, label = self._kept.get(index) or self._decode(index)
        if pixels is None or pixels.nbytes <= self._largest:
            self._kept[index] = pixels, label
        if pixels is None:
            return np.zeros(self._images.shape, np.float32), label, False
        for transform in transforms:
            pixels = transform(pixels, rng)
        if pixels.shape != tuple(self._images.shape):
            hint = "set shape, or resize by transforms=(Resize(size), CenterCrop(size), Channels(count))"
            expected = f"{pixels.shape} as of {self._records.place(self._number(index))}"
            raise UserError("data.shape", expected, tuple(self._images.shape), hint=hint)
        return self._normalised(pixels), label, bool(label >= 0)

    def _number(self, index: int) -> int:
        """The number of an example's record."""
        return index if self._numbers is None else int(self._numbers[index])

    def _decode(self, index: int) -> tuple[np.ndarray | None, np.ndarray]:
        """An image as stored in the set, uint8 [H W C], and its label, int32 []. If None, it is left out."""
        number = self._number(index)
        pixels, record = self._records[number]
        return pixels, np.array(self._label(number, record) if record else -1, np.int32)

    def _label(self, number: int, record: Example) -> int:
        """The class of a record, -1 for none. Raises UserError, naming the record, for any other number."""
        label = self._label_of(record[self._feature])
        if not -1 <= label < self._classes:
            expected = f"labels from 0 to {self._classes - 1} in {self._records.name}, or -1 for none"
            raise UserError("data.label_feature", expected, f"{label} in {self._records.place(number)}")
        return label
