"""Labelled images: transformed, normalized, mixed, in this order."""

import dataclasses
import hashlib
import logging
from typing import Any

import jax
import numpy as np

from txjax.data import records
from txjax.data.computed_labels import ComputedLabel
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.image_files import MODES, UnreadableImage, decode_image
from txjax.data.mixing import Mixing
from txjax.data.subset import Subset
from txjax.data.transforms import Transform
from txjax.types import UserError, config_field, require, spec

logger = logging.getLogger(__name__)

MEMORY = 256 << 20  # bytes of decoded images; a data set that fits is decoded once


@dataclasses.dataclass
class Images(TFDSDataset):
    """Images with a class label.

    An example: image float32 [H W C], (pixels / 255 - mean) / std; label int32 []; weights float32 [], 1, or 0 if
    the set has no label (-1) or the image was left out. With `mix` also other_label int32 [] and mix float32 [], the
    share of `label`.

    Attributes:
      shape: height, width and channels, after the transforms.
      classes: the number of classes.
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
    """

    shape: tuple[int, int, int] = (8, 8, 1)
    classes: int = config_field(10, at_least=1)
    image_feature: str = "image"
    label_feature: str = "label"
    label: ComputedLabel | None = None
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))
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
        require("PIL", "pillow", "data.name")
        if (classes := self._classes(features)) != self.classes:
            raise UserError("data.classes", f"the {classes} classes of {self.name}", self.classes)
        for field in ("mean", "std"):
            if len(getattr(self, field)) not in (1, self.shape[2]):
                raise UserError(f"data.{field}", f"1 or {self.shape[2]} numbers, one per channel", getattr(self, field))
        if min(self.std) <= 0:
            raise UserError("data.std", "numbers above 0", self.std)
        for transform in self.transforms:
            transform.check()
        if self.mix is not None:
            self.mix.check()

    def _classes(self, features: Any) -> int:
        """The number of classes by the set's features."""
        if self.label is not None:
            return self.label.check(features)
        return int(
            records.check_feature("data.label_feature", self.label_feature, features, ("ClassLabel",)).num_classes
        )

    def class_names(self) -> tuple[str, ...]:
        if self.label is not None:
            return tuple(str(number) for number in range(self.classes))
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
        self._records = records.Records(*where, [self._feature], encoded=[images.image_feature])
        stored = records.check(*where)[images.image_feature].shape[-1]
        self._channels = stored if stored in MODES else 3
        self._numbers: np.ndarray | None = None  # record numbers of the subset; all records if None
        self.fingerprint = self._records.fingerprint
        self._left_out: set[int] = set()  # numbers of records that could not be decoded
        if images.subset is not None:
            labels = records.Records(*where, [self._feature])
            self._numbers = images.subset.choose(
                lambda number: self._label(labels, number, labels[number]), len(labels), images.classes
            )
            content = self.fingerprint.encode() + self._numbers.tobytes()
            self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
        # (pixel / 255 - mean) / std as one product and one sum over whole rows, which is faster than over channels.
        _, width, channels = images.shape
        std, mean = (np.tile(np.broadcast_to(x, channels), width) for x in (images.std, images.mean))
        self._scale, self._shift = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
        self._kept: dict[int, tuple[np.ndarray | None, np.ndarray]] = {}
        first = self._decoded(0)[0]
        self._keeps = first is not None and len(self) * first.nbytes <= MEMORY

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, each of which keeps its own decoded images."""
        return vars(self) | {"_kept": {}}

    def __len__(self) -> int:
        return len(self._records) if self._numbers is None else len(self._numbers)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        image, label, weight = self._read(index, rng)
        if self._images.mix is None:
            return {"image": image, "label": label, "weights": np.array(weight, np.float32)}
        other, other_label, other_weight = self._read(int(rng.integers(len(self))), rng)
        image, share = self._images.mix(image, other, rng)
        return {
            "image": image,
            "label": label,
            "other_label": other_label,
            "mix": np.array(share, np.float32),
            "weights": np.array(weight * other_weight, np.float32),
        }

    def _read(self, index: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, bool]:
        """An image, transformed and normalized; its label, int32 []; whether it has both. Zeros for one left out."""
        pixels, label = self._kept.get(index) or self._decoded(index)
        if self._keeps:
            self._kept[index] = pixels, label
        if pixels is None:
            return np.zeros(self._images.shape, np.float32), label, False
        for transform in self._images.transforms:
            pixels = transform(pixels, rng)
        if pixels.shape != tuple(self._images.shape):
            hint = "set data.shape, or resize by transforms=(Resize(size), CenterCrop(size), Channels(count))"
            expected = f"{pixels.shape} as of {self._records.place(self._number(index))}"
            raise UserError("data.shape", expected, tuple(self._images.shape), hint=hint)
        image = pixels.reshape(len(pixels), -1).astype(np.float32)
        image *= self._scale
        image += self._shift
        return image.reshape(pixels.shape), label, bool(label >= 0)

    def _number(self, index: int) -> int:
        """The number of an example's record."""
        return index if self._numbers is None else int(self._numbers[index])

    def _decoded(self, index: int) -> tuple[np.ndarray | None, np.ndarray]:
        """An image as stored in the set, uint8 [H W C], and its label, int32 []. If None, it is left out."""
        number, label = self._number(index), -1
        try:
            record = self._records[number]
            label = self._label(self._records, number, record)
            pixels = decode_image(record[self._images.image_feature], self._channels)
        except (records.CorruptData, UnreadableImage) as error:
            self._leave_out(number, error)
            pixels = None
        return pixels, np.array(label, np.int32)

    def _leave_out(self, number: int, error: Exception) -> None:
        """Counts a record that cannot be decoded. Raises UserError, naming it, unless such records are skipped."""
        place = f"{self._records.name}: {self._records.place(number)}"
        if self._images.corrupt == "refuse":
            if isinstance(error, records.CorruptData):  # no file inside the record, but the record itself
                raise error
            hint = '"skip" as data.corrupt leaves such images out'
            raise UserError("data.corrupt", "images that can be decoded", f"{place}: {error}", hint=hint) from error
        if number not in self._left_out:
            self._left_out.add(number)
            logger.warning("%s cannot be decoded and is left out (%d so far): %s", place, len(self._left_out), error)

    def _label(self, source: records.Records, number: int, record: Example) -> int:
        """The class of a record, -1 for none. Raises UserError, naming the record, for any other number."""
        value, compute = record[self._feature], self._images.label
        label = int(value) if compute is None else compute(value)
        if not -1 <= label < self._images.classes:
            expected = f"labels from 0 to {self._images.classes - 1} in {source.name}, or -1 for none"
            raise UserError("data.label_feature", expected, f"{label} in {source.place(number)}")
        return label
