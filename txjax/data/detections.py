"""Images with boxes: transformed together, padded to one size, with as many rows as the most objects of an image."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from txjax.data import records
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.geometric import Geometric
from txjax.data.image_records import ImageRecords, Normaliser, check_normalisation, check_pixels
from txjax.data.transforms import Transform
from txjax.types import UserError, config_field, require, spec

NO_OBJECT = -1  # the class of a row of padding


@dataclasses.dataclass
class Detections(TFDSDataset):
    """Images with boxes, and with masks if the set has them.

    An example: image float32 [H W C], (pixels / 255 - mean) / std, 0 where it is padded, below and to the right; extent
    int32 [2], its rows and columns without padding; boxes float32 [N 4], (top, left, bottom, right) as fractions of the
    padded image; box_labels int32 [N], -1 where there is no object; with `masks_feature` masks int32 [N H W]; weights
    float32 [], 1, or 0 if the image was left out. An image may have no object.

    Attributes:
      shape: height, width and channels of the padded images.
      classes: the number of classes.
      objects: N, the most objects of an image.
      image_feature: the name of the set's image feature.
      boxes_feature: the name of its sequence of objects, with `bbox` and `label`; where it has `is_crowd`, as COCO's,
        boxes of crowds are not used.
      masks_feature: the name of an image feature whose pixels are the number of the object there, from 1, or 0. If
        None, examples have no masks.
      corrupt: what happens to an image that cannot be decoded, has more than `objects`, or a box that is not inside
        it or has no area: "refuse" is an error that names its record; "skip" leaves it out, as an example of weight 0,
        with a line in the log and their number so far.
      mean: the mean of the pixels (/ 255), one for all channels or one per channel.
      std: their standard deviation, likewise.
      transforms: applied in this order; boxes and masks follow the pixels. An object of which nothing is left is
        dropped.
    """

    shape: tuple[int, int, int] = (64, 64, 1)
    classes: int = config_field(10, at_least=1)
    objects: int = config_field(3, at_least=1)
    image_feature: str = "image"
    boxes_feature: str = "objects"
    masks_feature: str | None = None
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    transforms: tuple[Transform, ...] = ()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        shapes = {"image": spec(tuple(self.shape), "float32"), "extent": spec((2,), "int32")}
        shapes |= {"boxes": spec((self.objects, 4), "float32"), "box_labels": spec((self.objects,), "int32")}
        if self.masks_feature is not None:
            shapes["masks"] = spec((self.objects, *self.shape[:2]), "int32")
        return {"id": spec((), "int32"), "weights": spec((), "float32")} | shapes

    def check(self) -> None:
        features = records.check(self.name, self.split, self.data_dir)
        check_pixels(self.image_feature, features)
        require("PIL", "pillow", "data.name")
        if (classes := self._objects(features)["label"].num_classes) != self.classes:
            raise UserError("data.classes", f"the {classes} classes of {self.name}", self.classes)
        if self.masks_feature is not None:
            records.check_feature("data.masks_feature", self.masks_feature, features, ("Image",))
        check_normalisation(self.mean, self.std, self.shape[2])
        for transform in self.transforms:
            transform.check()

    def _objects(self, features: Any) -> Any:
        """The features of the objects."""
        found = records.check_feature("data.boxes_feature", self.boxes_feature, features, ("Sequence",)).feature
        for name, kind in (("bbox", "BBoxFeature"), ("label", "ClassLabel")):
            if name not in found or type(found[name]).__name__ != kind:
                expected = f"a sequence with bbox (BBoxFeature) and label (ClassLabel), and this one has {list(found)}"
                raise UserError("data.boxes_feature", expected, self.boxes_feature)
        return found

    def class_names(self) -> tuple[str, ...]:
        return tuple(self._objects(records.check(self.name, self.split, self.data_dir))["label"].names)

    def open(self) -> Source:
        self.check()
        source = DetectionSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


@dataclasses.dataclass
class Scene:
    """An image, uint8 [H W C], with its objects.

    Attributes:
      boxes: float32 [n 4].
      labels: int32 [n].
      masks: int32 [n H W]. If None, there are none.
    """

    image: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    masks: np.ndarray | None

    def transformed(self, transform: Transform, rng: np.random.Generator) -> "Scene":
        """The scene after a transform; boxes and masks follow a geometric one."""
        if (drawn := transform.drawn(rng)) != (transform,):
            return functools.reduce(lambda scene, part: scene.transformed(part, rng), drawn, self)
        if not isinstance(transform, Geometric):
            return dataclasses.replace(self, image=transform(self.image, rng))
        height, width = self.image.shape[:2]
        view = transform.view(height, width, rng)
        boxes, kept = view.of_boxes(self.boxes, height, width)
        masks = None if self.masks is None else view.of_masks(self.masks)[kept]
        return Scene(view.of_image(self.image), boxes[kept], self.labels[kept], masks)


class DetectionSource:
    """The images of a split with their boxes, by index."""

    def __init__(self, data: Detections):
        self._data = data
        features = [data.boxes_feature] + ([data.masks_feature] if data.masks_feature else [])
        where = data.name, data.split, data.data_dir
        self._records = ImageRecords(where, data.image_feature, features, data.corrupt)
        self._normalised = Normaliser(data.mean, data.std, *data.shape[1:])
        self.fingerprint = self._records.fingerprint

    def __len__(self) -> int:
        return len(self._records)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        data, scene = self._data, self._scene(index)
        if scene is None:
            return {name: np.zeros(x.shape, x.dtype) for name, x in data.spec().items() if name != "id"} | {
                "box_labels": np.full(data.objects, NO_OBJECT, np.int32)
            }
        for transform in data.transforms:
            scene = scene.transformed(transform, rng)
        return self._padded(scene, index)

    def _scene(self, number: int) -> Scene | None:
        """A record as it is stored. None if it is left out."""
        data = self._data
        image, record = self._records[number]
        if image is None:
            return None
        objects = record[data.boxes_feature]
        if "is_crowd" in objects:
            single = ~np.asarray(objects["is_crowd"], bool)
            objects = {name: np.asarray(objects[name])[single] for name in ("bbox", "label")}
        boxes = np.asarray(objects["bbox"], np.float32).reshape(-1, 4)
        labels = np.asarray(objects["label"], np.int32)
        if len(boxes) > data.objects:
            expected = f"at most {data.objects} objects (data.objects) in an image"
            self._records.leave_out(number, expected, str(len(boxes)), "has too many objects")
            return None
        inside = (boxes[:, :2] >= 0) & (boxes[:, 2:] <= 1) & (boxes[:, 2:] > boxes[:, :2])
        if not inside.all():
            bad = [round(float(x), 4) for x in boxes[~inside.all(1)][0]]
            expected = "boxes (top, left, bottom, right) in [0, 1] with an area above 0"
            self._records.leave_out(number, expected, str(bad), "has a box that is not inside it or has no area")
            return None
        if data.masks_feature is None:
            return Scene(image, boxes, labels, None)
        numbers = np.asarray(record[data.masks_feature])[..., 0]
        if numbers.shape != image.shape[:2]:
            expected = f"masks of the image's size {image.shape[:2]}"
            self._records.leave_out(number, expected, str(numbers.shape), "has masks of another size")
            return None
        return Scene(image, boxes, labels, (numbers == np.arange(1, len(boxes) + 1)[:, None, None]).astype(np.int32))

    def _padded(self, scene: Scene, number: int) -> Example:
        data, (height, width, channels) = self._data, scene.image.shape
        if height > data.shape[0] or width > data.shape[1] or channels != data.shape[2]:
            hint = "set data.shape, or resize by transforms=(ResizeWithin(sides, longest), Channels(count))"
            expected = f"at least {scene.image.shape} as of {self._records.place(number)}"
            raise UserError("data.shape", expected, tuple(data.shape), hint=hint)
        count = len(scene.boxes)
        image = np.zeros(data.shape, np.float32)
        # Rows are normalised in the width of the padded image.
        pixels = np.zeros((height, *data.shape[1:]), np.uint8)
        pixels[:, :width] = scene.image
        image[:height, :width] = self._normalised(pixels)[:, :width]
        boxes, labels = np.zeros((data.objects, 4), np.float32), np.full(data.objects, NO_OBJECT, np.int32)
        share = np.array([height / data.shape[0], width / data.shape[1]] * 2, np.float32)
        boxes[:count], labels[:count] = scene.boxes * share, scene.labels
        example = {
            "image": image,
            "extent": np.array([height, width], np.int32),
            "boxes": boxes,
            "box_labels": labels,
            "weights": np.ones((), np.float32),
        }
        if scene.masks is not None:
            masks = np.zeros((data.objects, *data.shape[:2]), np.int32)
            masks[:count, :height, :width] = scene.masks
            example["masks"] = masks
        return example
