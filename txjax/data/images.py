"""Labelled images: transformed, normalized, mixed, in this order."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data import records
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.mixing import Mixing
from txjax.data.subset import Subset
from txjax.data.transforms import Transform
from txjax.types import UserError, config_field, spec

MEMORY = 256 << 20  # bytes of decoded images; a data set that fits is decoded once


@dataclasses.dataclass
class Images(TFDSDataset):
    """Images with a class label.

    An example: image float32 [H W C], (pixels / 255 - mean) / std; label int32 []; weights float32 [], 1, or 0 if
    the set has no label (-1). With `mix` also other_label int32 [] and mix float32 [], the share of `label`.

    Attributes:
      shape: height, width and channels, after the transforms.
      classes: the number of classes.
      image_feature: the name of the set's image feature.
      label_feature: the name of the set's label feature.
      mean: the mean of the pixels (/ 255), one for all channels or one per channel.
      std: their standard deviation, likewise.
      transforms: applied in this order; augmentations belong only in the training set's config.
      mix: mixes a second example into the image, for training only. If None, images are not mixed.
      subset: a few examples of each class. If None, the whole split.
    """

    shape: tuple[int, int, int] = (8, 8, 1)
    classes: int = config_field(10, at_least=1)
    image_feature: str = "image"
    label_feature: str = "label"
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    transforms: tuple[Transform, ...] = ()
    mix: Mixing | None = None
    subset: Subset | None = None

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        scalars = {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")}
        if self.mix is not None:
            scalars |= {"other_label": spec((), "int32"), "mix": spec((), "float32")}
        return scalars | {"image": spec(tuple(self.shape), "float32")}

    def check(self) -> None:
        features = records.check(self.name, self.split, self.data_dir)
        image = records.check_feature("data.image_feature", self.image_feature, features, ("Image",))
        if np.dtype(image.np_dtype) != np.uint8:
            raise UserError("data.image_feature", "images of uint8", f"images of {np.dtype(image.np_dtype)}")
        label = records.check_feature("data.label_feature", self.label_feature, features, ("ClassLabel",))
        if label.num_classes != self.classes:
            raise UserError("data.classes", f"the {label.num_classes} classes of {self.name}", self.classes)
        for field in ("mean", "std"):
            if len(getattr(self, field)) not in (1, self.shape[2]):
                raise UserError(f"data.{field}", f"1 or {self.shape[2]} numbers, one per channel", getattr(self, field))
        if min(self.std) <= 0:
            raise UserError("data.std", "numbers above 0", self.std)
        for transform in self.transforms:
            transform.check()
        if self.mix is not None:
            self.mix.check()

    def class_names(self) -> tuple[str, ...]:
        return tuple(records.check(self.name, self.split, self.data_dir)[self.label_feature].names)

    def open(self) -> Source:
        self.check()
        source = ImageSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


class ImageSource:
    """The images of a split, by index."""

    def __init__(self, images: Images):
        def read(*features: str) -> records.Records:
            return records.Records(images.name, images.split, images.data_dir, features)

        self._images = images
        self._records = read(images.image_feature, images.label_feature)
        self._numbers: np.ndarray | None = None  # record numbers of the subset; all records if None
        self.fingerprint = self._records.fingerprint
        if images.subset is not None:
            labels = read(images.label_feature)
            self._numbers = images.subset.choose(
                lambda number: self._label(labels, number, labels[number]), len(labels), images.classes
            )
            content = self.fingerprint.encode() + self._numbers.tobytes()
            self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
        # (pixel / 255 - mean) / std as one product and one sum over whole rows, which is faster than over channels.
        _, width, channels = images.shape
        std, mean = (np.tile(np.broadcast_to(x, channels), width) for x in (images.std, images.mean))
        self._scale, self._shift = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._keeps = len(self) * self._decoded(0)[0].nbytes <= MEMORY

    def __len__(self) -> int:
        return len(self._records) if self._numbers is None else len(self._numbers)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        image, label = self._read(index, rng)
        if self._images.mix is None:
            return {"image": image, "label": label, "weights": np.array(label >= 0, np.float32)}
        other, other_label = self._read(int(rng.integers(len(self))), rng)
        image, share = self._images.mix(image, other, rng)
        return {
            "image": image,
            "label": label,
            "other_label": other_label,
            "mix": np.array(share, np.float32),
            "weights": np.array(min(label, other_label) >= 0, np.float32),
        }

    def _read(self, index: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """An image, transformed and normalized, and its label, int32 []."""
        pixels, label = self._kept.get(index) or self._decoded(index)
        if self._keeps:
            self._kept[index] = pixels, label
        for transform in self._images.transforms:
            pixels = transform(pixels, rng)
        if pixels.shape != tuple(self._images.shape):
            hint = "set data.shape, or resize by transforms=(Resize(size), CenterCrop(size), Channels(count))"
            raise UserError("data.shape", f"{pixels.shape} as of image {index}", tuple(self._images.shape), hint=hint)
        image = pixels.reshape(len(pixels), -1).astype(np.float32)
        image *= self._scale
        image += self._shift
        return image.reshape(pixels.shape), label

    def _decoded(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """An image as stored in the set, uint8 [H W C], and its label, int32 []."""
        number = index if self._numbers is None else int(self._numbers[index])
        record = self._records[number]
        return record[self._images.image_feature], np.array(self._label(self._records, number, record), np.int32)

    def _label(self, source: records.Records, number: int, record: Example) -> int:
        """The class of a record, -1 for none. Raises UserError, naming the record, for any other number."""
        label = int(record[self._images.label_feature])
        if not -1 <= label < self._images.classes:
            expected = f"labels from 0 to {self._images.classes - 1} in {source.name}, or -1 for none"
            raise UserError("data.label_feature", expected, f"{label} in {source.place(number)}")
        return label
