"""`txjax_canvases`: one to three items of a classification set on a noisy canvas, with boxes, masks and counts."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from txjax.data.loading.disk_cache import cache_dir
from txjax.data.tfds import records
from txjax.data.tfds.builders.txjax_digits.txjax_digits_dataset_builder import png
from txjax.errors import require

SIDE = 64  # of a canvas, in pixels
ITEMS = (1, 3)  # fewest and most items of a canvas
SIDES = (16, 24)  # shortest and longest side of an item
NOISE = 0.15  # standard deviation of the noise, of the range of a pixel
SEEN = 0.5  # the least share of an item that others leave visible
INSIDE = 0.1  # of its brightest pixel: what is darker does not belong to an item
SPLITS = {"train": 2000, "test": 500}
DEFAULT = "txjax_digits"


class Builder(tfds.core.GeneratorBasedBuilder):
    """Canvases of 64x64 grey pixels with items of another set: digits, or in `txjax_canvases/NAME` the items of NAME.

    The items of the canvases of a split are of the same split of that set. Each is scaled to 16 to 24 pixels; a later
    one may cover up to half of an earlier one. A box is the tightest around what is visible.
    """

    VERSION = tfds.core.Version("1.0.0")
    SPLITS = tuple(SPLITS)
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=DEFAULT)]

    @classmethod
    def add_config(cls, name: str, data_dir: str | None) -> None:
        """Makes `txjax_canvases/NAME` known. Raises UserError if NAME has no images with a class."""
        features = records.check(name, "train", data_dir)
        records.check_feature("data.name", "image", features, ("Image",))
        records.check_feature("data.name", "label", features, ("ClassLabel",))
        cls.builder_configs.setdefault(name, tfds.core.BuilderConfig(name=name))

    @property
    def source(self) -> tuple[str, str | None]:
        """The name of the set of the items, and the folder that has it prepared. If None, TFDS's own."""
        root = self._data_dir_root
        return self.builder_config.name, None if str(root) == str(cache_dir() / "tfds") else str(root)

    def check(self) -> None:
        """Raises UserError if a split of the items is missing, or Pillow isn't installed."""
        require("PIL", "pillow", "data.name")
        name, data_dir = self.source
        for split in SPLITS:
            records.check(name, split, data_dir)

    def _info(self) -> tfds.core.DatasetInfo:
        name, data_dir = self.source
        classes = records.check(name, "train", data_dir)["label"].names
        grey = dict(shape=(SIDE, SIDE, 1), dtype=np.uint8, encoding_format="png")
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"One to three items of {name} on a noisy canvas.",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(**grey),
                    "instances": tfds.features.Image(**grey),  # 0, or the number of the object, from 1
                    "objects": tfds.features.Sequence(
                        {
                            "bbox": tfds.features.BBoxFeature(),
                            "label": tfds.features.ClassLabel(names=classes),
                        }
                    ),
                    "count": tfds.features.ClassLabel(num_classes=ITEMS[1] + 1),
                }
            ),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(split, size) for split, size in SPLITS.items()}

    def _generate_examples(self, split: str, size: int) -> Iterator[tuple[int, dict[str, object]]]:
        name, data_dir = self.source
        items = records.Records(name, split, data_dir, ["image", "label"])
        for number in range(size):
            yield number, canvas(items, split, number)


def canvas(items: records.Records, split: str, number: int) -> dict[str, Any]:
    """Canvas `number` of a split, as a record. All that is random follows from the two."""
    seed = hashlib.sha256(f"{split} {number}".encode()).digest()[:8]
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))
    count = int(rng.integers(ITEMS[0], ITEMS[1] + 1))
    light = np.abs(rng.normal(0, NOISE, (SIDE, SIDE)))
    instances = np.zeros((SIDE, SIDE), np.uint8)
    labels: list[int] = []
    sizes: list[int] = []
    while len(labels) < count:
        record = items[int(rng.integers(len(items)))]
        item = scale_image(record["image"], int(rng.integers(SIDES[0], SIDES[1] + 1)))
        inside = item > INSIDE * item.max()
        top, left = (int(rng.integers(SIDE - side + 1)) for side in item.shape)
        place = slice(top, top + item.shape[0]), slice(left, left + item.shape[1])
        after = instances.copy()
        after[place][inside] = len(labels) + 1
        if any((after == i + 1).sum() < SEEN * size for i, size in enumerate(sizes)):
            continue  # it covers too much of another item
        instances = after
        light[place][inside] = item[inside]
        labels.append(int(record["label"]))
        sizes.append(int(inside.sum()))
    boxes = [box_of(instances == i + 1) for i in range(count)]
    return {
        "image": png(np.rint(light.clip(0, 1) * 255).astype(np.uint8)),
        "instances": png(instances),
        "objects": [
            {"bbox": tfds.features.BBox(*box), "label": label} for box, label in zip(boxes, labels, strict=True)
        ],
        "count": count,
    }


def scale_image(image: np.ndarray, side: int) -> np.ndarray:
    """uint8 [H W C] -> the mean of its channels in [0, 1], [rows columns]; the longer side has `side` pixels."""
    from PIL import Image

    grey = image.mean(-1)
    scale = side / max(grey.shape)
    rows, columns = (max(1, round(length * scale)) for length in grey.shape)
    picture = Image.fromarray(np.rint(grey).astype(np.uint8)).resize((columns, rows), Image.Resampling.BILINEAR)
    return np.asarray(picture) / 255


def box_of(mask: np.ndarray) -> tuple[float, float, float, float]:
    """The tightest box around a mask [H W]: top, left, bottom, right as fractions."""
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    height, width = mask.shape
    return rows[0] / height, columns[0] / width, (rows[-1] + 1) / height, (columns[-1] + 1) / width
