"""Labelled images, and what may be done to them before they are normalised."""

import dataclasses

import jax
import numpy as np

from txjax.data import records
from txjax.data.dataset import Example, Source, TFDSDataset, require
from txjax.types import UserError, setting, spec


@dataclasses.dataclass
class Transform:
    """A change to an image, uint8 [H W C]. Every draw comes from `rng`, which is keyed by example and epoch."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError

    def check(self) -> None:
        """Raises UserError where this transform cannot work here."""


@dataclasses.dataclass
class PadCrop(Transform):
    """Pads every side with `pad` black pixels and cuts the old size out at a random place."""

    pad: int = setting(1, at_least=0)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = rng.integers(2 * self.pad + 1, size=2)
        padded = np.pad(image, ((self.pad, self.pad), (self.pad, self.pad), (0, 0)))
        return padded[top : top + image.shape[0], left : left + image.shape[1]]


@dataclasses.dataclass
class Flip(Transform):
    """Swaps left and right with probability 1/2."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return image[:, ::-1] if rng.random() < 0.5 else image


@dataclasses.dataclass
class Resize(Transform):
    """Brings the shorter side to `size` pixels, bicubic and antialiased; height : width stays as it is."""

    size: int = setting(224, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        from PIL import Image

        height, width, channels = image.shape
        scale = self.size / min(height, width)
        size = round(width * scale), round(height * scale)
        picture = Image.fromarray(image[..., 0] if channels == 1 else image)
        return np.asarray(picture.resize(size, Image.Resampling.BICUBIC)).reshape(size[1], size[0], channels)


@dataclasses.dataclass
class CenterCrop(Transform):
    """Cuts `size` x `size` pixels out of the middle."""

    size: int = setting(224, at_least=1)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = (image.shape[0] - self.size) // 2, (image.shape[1] - self.size) // 2
        if min(top, left) < 0:
            hint = "put Resize before it"
            raise UserError("data.transforms", f"CenterCrop of at most {min(image.shape[:2])}", self.size, hint=hint)
        return image[top : top + self.size, left : left + self.size]


@dataclasses.dataclass
class Images(TFDSDataset):
    """Images with a class.

    An example: image float32 [H W C], (pixels / 255 - mean) / std; label int32 []; weights float32 [], 1, and 0 where
    the set gives no label (-1).

    Attributes:
      shape: height, width and channels, after the transforms.
      classes: how many classes the set has.
      image_feature: the set's image feature.
      label_feature: the set's label feature.
      mean: of one or of each channel.
      std: of one or of each channel.
      transforms: applied in this order; those of training only belong in the training set's config only.
    """

    name: str = "txjax_digits"
    split: str = "train"
    shape: tuple[int, int, int] = (8, 8, 1)
    classes: int = setting(10, at_least=1)
    image_feature: str = "image"
    label_feature: str = "label"
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    transforms: tuple[Transform, ...] = ()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        scalars = {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")}
        return scalars | {"image": spec(tuple(self.shape), "float32")}

    def check(self) -> None:
        features = records.check(self.name, self.split, self.data_dir)
        records.check_feature("data.image_feature", self.image_feature, features, ("Image",))
        label = records.check_feature("data.label_feature", self.label_feature, features, ("ClassLabel",))
        if label.num_classes != self.classes:
            raise UserError("data.classes", f"the {label.num_classes} classes of {self.name}", self.classes)
        for field in ("mean", "std"):
            if len(getattr(self, field)) not in (1, self.shape[2]):
                raise UserError(f"data.{field}", f"1 or {self.shape[2]} numbers, one a channel", getattr(self, field))
        if min(self.std) <= 0:
            raise UserError("data.std", "numbers above 0", self.std)
        for transform in self.transforms:
            transform.check()

    def open(self) -> Source:
        self.check()
        source = ImageSource(self)
        source.example(0, 0, np.random.default_rng(0))  # a wrong shape shows here, not after the compile
        return source


class ImageSource:
    """The images of a split, by number."""

    def __init__(self, images: Images):
        self._images = images
        self._records = records.Records(
            images.name, images.split, images.data_dir, [images.image_feature, images.label_feature]
        )
        self.fingerprint = self._records.fingerprint
        self._mean, self._std = np.array(images.mean, np.float32), np.array(images.std, np.float32)

    def __len__(self) -> int:
        return len(self._records)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        record = self._records[index]
        pixels = record[self._images.image_feature]
        for transform in self._images.transforms:
            pixels = transform(pixels, rng)
        if pixels.shape != tuple(self._images.shape):
            hint = "set data.shape, or bring it there by transforms=(Resize(size), CenterCrop(size)); channels stay"
            raise UserError("data.shape", f"{pixels.shape} as of image {index}", tuple(self._images.shape), hint=hint)
        label = np.int32(record[self._images.label_feature])
        return {
            "image": (pixels.astype(np.float32) / 255 - self._mean) / self._std,
            "label": np.asarray(label),
            "weights": np.asarray(label >= 0, np.float32),
        }
