"""Images with boxes: transformed together, padded to one size, with as many rows as the most objects of an image."""

import dataclasses
import logging
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.images.image_records import ImageRecords, Normaliser, check_normalisation, check_pixels
from txjax.data.images.scenes import Annotations, Scene, box_areas, clip_boxes
from txjax.data.images.transforms import Transform
from txjax.data.tfds import records
from txjax.errors import UserError, require
from txjax.types import config_field, spec

logger = logging.getLogger(__name__)
NO_OBJECT = -1  # the class of a row of padding


@dataclasses.dataclass
class Detections(RecordDataset):
    """Images with boxes, and with masks if the set has them.

    An example: image float32 [H W C], (pixels / 255 - mean) / std, 0 where it is padded, below and to the right; extent
    int32 [2], its rows and columns without padding; boxes float32 [N 4], (top, left, bottom, right) as fractions of the
    padded image; box_labels int32 [N], -1 where there is no object; with `masks_feature` masks int32 [N H W]; with
    `attribute` box_attributes int32 [N], -1 for none; weights float32 [], 1, or 0 if the image was left out. An image
    may have no object.

    For evaluations: stored_extent float32 [2], the rows and columns of the stored image that are shown; box_areas
    float32 [N], the objects' areas in pixels of the stored image; crowd_boxes float32 [N 4] and crowd_labels int32 [N],
    groups whose members are not annotated one by one. Nothing is trained on crowds.

    A box is cut at the border of its image. One without an area in the image (of height or width 0, inverted, outside,
    or with numbers that are not finite) is dropped, and the image is used without it. Both are a line in the log, with
    the number of such boxes so far.

    Attributes:
      shape: height, width and channels of the padded images.
      classes: the number of classes. If None, the set's.
      objects: N, the most objects of an image, and the most crowds.
      image_feature: the name of the set's image feature.
      boxes_feature: the name of its sequence of objects, with `bbox` and `label`; as in COCO's, `is_crowd` says which
        are crowds, and `area` is the area of each in pixels. Without `area` it is that of the box.
      masks_feature: the name of an image feature whose pixels are the number of the object there, from 1, or 0. If
        None, examples have no masks.
      attribute: the name of a class in `boxes_feature` that is an attribute of each object, such as its color; -1 in
        the set is none. If None, examples have no attributes.
      corrupt: what happens to an image that cannot be decoded, has more than `objects` objects or crowds, or masks that
        are damaged or of another size: "refuse" is an error that names its record; "skip" leaves it out, as an example
        of weight 0, with a line in the log and their number so far.
      mean: the mean of the pixels (/ 255), one for all channels or one per channel.
      std: their standard deviation, likewise.
      transforms: applied in this order; boxes and masks follow the pixels. An object of which nothing is left is
        dropped.
    """

    shape: tuple[int, int, int] = describing_field((64, 64, 1))
    classes: int | None = config_field(None, at_least=1)
    objects: int = describing_field(3, at_least=1)
    image_feature: str = describing_field("image")
    boxes_feature: str = describing_field("objects")
    masks_feature: str | None = None
    attribute: str | None = None
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))
    mean: tuple[float, ...] = describing_field((0.5,))
    std: tuple[float, ...] = describing_field((0.5,))
    transforms: tuple[Transform, ...] = ()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        shapes = {"image": spec(tuple(self.shape), "float32"), "extent": spec((2,), "int32")}
        boxes = spec((self.objects, 4), "float32")
        labels = spec((self.objects,), "int32")
        shapes |= {"boxes": boxes, "box_labels": labels, "box_areas": spec((self.objects,), "float32")}
        shapes |= {"crowd_boxes": boxes, "crowd_labels": labels, "stored_extent": spec((2,), "float32")}
        if self.masks_feature is not None:
            shapes["masks"] = spec((self.objects, *self.shape[:2]), "int32")
        if self.attribute is not None:
            shapes["box_attributes"] = labels
        return {"id": spec((), "int32"), "weights": spec((), "float32")} | shapes

    def check(self) -> None:
        features = self.record_split.check()
        check_pixels(self.image_feature, features)
        require("PIL", "pillow", "data.name")
        if self.classes not in (None, classes := self._objects(features)["label"].num_classes):
            raise UserError("data.classes", f"the {classes} classes of {self.record_split.label}", self.classes)
        if self.masks_feature is not None:
            records.check_feature("data.masks_feature", self.masks_feature, features, ("Image",))
        check_normalisation(self.mean, self.std, self.shape[2])
        for transform in self.transforms:
            transform.check()

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = int(self._objects(self.record_split.features())["label"].num_classes)

    def _objects(self, features: Any) -> Any:
        """The features of the objects."""
        objects = records.check_feature("data.boxes_feature", self.boxes_feature, features, ("Sequence",)).feature
        for name, kind in (("bbox", "BBoxFeature"), ("label", "ClassLabel")):
            if name not in objects or type(objects[name]).__name__ != kind:
                expected = (
                    f"a sequence with bbox (BBoxFeature) and label (ClassLabel), and this one has {list(objects)}"
                )
                raise UserError("data.boxes_feature", expected, self.boxes_feature)
        if self.attribute is not None and type(dict(objects).get(self.attribute)).__name__ != "ClassLabel":
            raise UserError("data.attribute", f"a class of each object, one of {list(objects)}", self.attribute)
        for name in ("area", "is_crowd"):
            if name in objects and (objects[name].shape != () or np.dtype(objects[name].np_dtype).kind not in "biuf"):
                expected = f"a sequence whose {name} is a number of each object"
                raise UserError("data.boxes_feature", expected, f"{self.boxes_feature}: {name} is {objects[name]}")
        return objects

    def class_names(self) -> tuple[str, ...]:
        return tuple(self._objects(self.record_split.check())["label"].names)

    def open(self) -> Source:
        self.check()
        source = DetectionSource(self)
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source


class DetectionSource:
    """The images of a split with their boxes, by index."""

    def __init__(self, data: Detections):
        self._data = data
        self._records = ImageRecords(
            data.record_split, data.image_feature, [data.boxes_feature], data.corrupt, data.masks_feature
        )
        self._normalised = Normaliser(data.mean, data.std, *data.shape[1:])
        self._changed: dict[str, dict[int, int]] = {}  # boxes of each record, by what was done with them
        self.fingerprint = self._records.fingerprint

    def __len__(self) -> int:
        return len(self._records)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        data = self._data
        scene = self._scene(index)
        if scene is None:
            empty = np.full(data.objects, NO_OBJECT, np.int32)
            example = {name: np.zeros(x.shape, x.dtype) for name, x in data.spec().items() if name != "id"}
            labels = {"box_labels", "crowd_labels", "box_attributes"} & example.keys()
            return example | dict.fromkeys(labels, empty)
        for transform in data.transforms:
            scene = scene.apply_transform(transform, rng)
        return self._pad_scene(scene, index)

    def _scene(self, number: int) -> Scene | None:
        """A record as it is stored. None if it is left out."""
        data = self._data
        image, record = self._records[number]
        if image is None:
            return None
        height, width = image.shape[:2]
        masks = None
        if data.masks_feature is not None:
            masks = self._records.mask(number, record[data.masks_feature], (height, width))
            if masks is None:
                return None
        objects, crowds = self._annotations(number, record[data.boxes_feature], height, width, masks)
        for kind, annotations in (("objects", objects), ("crowds", crowds)):
            if len(annotations) > data.objects:
                expected = f"at most {data.objects} {kind} (data.objects) in an image"
                self._records.leave_out(number, expected, str(len(annotations)), f"has too many {kind}")
                return None
        return Scene(image, objects, crowds, (height, width))

    def _annotations(
        self, number: int, features: dict[str, Any], height: int, width: int, masks: np.ndarray | None
    ) -> tuple[Annotations, Annotations]:
        """The objects and the crowds of an image of this size.

        Args:
          number: of the record, for the log.
          features: those of the record's objects, a row for each.
          masks: [H W], the number of the object at each pixel, from 1 in the order of the features, or 0.
        """
        stored = np.asarray(features["bbox"], np.float32).reshape(-1, 4)
        boxes, usable, cut = clip_boxes(stored)
        self._report(number, stored[~usable], "without an area in the image, dropped")
        self._report(number, stored[cut], "that reach beyond the image, cut at its border")
        areas = np.asarray(features["area"], np.float32) if "area" in features else box_areas(boxes, height, width)
        crowd = np.asarray(features.get("is_crowd", np.zeros(len(boxes))), bool)
        attributes = None if self._data.attribute is None else np.asarray(features[self._data.attribute], np.int32)
        annotations = Annotations(boxes, np.asarray(features["label"], np.int32), areas, attributes=attributes)
        single = usable & ~crowd
        objects = annotations.select(single)
        if masks is not None:
            numbers = np.flatnonzero(single)[:, None, None] + 1
            objects = dataclasses.replace(objects, masks=(masks == numbers).astype(np.int32))
        return objects, annotations.select(usable & crowd)

    def _report(self, number: int, boxes: np.ndarray, change: str) -> None:
        """Warns, once for a record, of boxes that were changed, with their number in all records so far."""
        counts = self._changed.setdefault(change, {})
        if len(boxes) and number not in counts:
            counts[number] = len(boxes)
            first = [round(float(x), 4) for x in boxes[0]]
            place = self._records.place(number)
            total = sum(counts.values())
            logger.warning("%s has boxes %s: %d (%d so far), first %s", place, change, len(boxes), total, first)

    def _pad_scene(self, scene: Scene, number: int) -> Example:
        data = self._data
        height, width, channels = scene.image.shape
        if height > data.shape[0] or width > data.shape[1] or channels != data.shape[2]:
            hint = "set shape, or resize by transforms=(ResizeWithin(sides, longest), Channels(count))"
            expected = f"at least {scene.image.shape} as of {self._records.place(number)}"
            raise UserError("data.shape", expected, tuple(data.shape), hint=hint)
        image = np.zeros(data.shape, np.float32)
        # Rows are normalised in the width of the padded image.
        pixels = np.zeros((height, *data.shape[1:]), np.uint8)
        pixels[:, :width] = scene.image
        image[:height, :width] = self._normalised(pixels)[:, :width]
        share = np.array([height / data.shape[0], width / data.shape[1]] * 2, np.float32)
        objects = scene.objects
        crowds = scene.crowds
        example = {
            "image": image,
            "extent": np.array([height, width], np.int32),
            "stored_extent": np.array(scene.stored_extent, np.float32),
            "boxes": _pad_rows(objects.boxes * share, data.objects, 0),
            "box_labels": _pad_rows(objects.labels, data.objects, NO_OBJECT),
            "box_areas": _pad_rows(objects.areas, data.objects, 0),
            "crowd_boxes": _pad_rows(crowds.boxes * share, data.objects, 0),
            "crowd_labels": _pad_rows(crowds.labels, data.objects, NO_OBJECT),
            "weights": np.ones((), np.float32),
        }
        if objects.attributes is not None:
            example["box_attributes"] = _pad_rows(objects.attributes, data.objects, NO_OBJECT)
        if objects.masks is not None:
            masks = np.zeros((data.objects, *data.shape[:2]), np.int32)
            masks[: len(objects), :height, :width] = objects.masks
            example["masks"] = masks
        return example


def _pad_rows(values: np.ndarray, count: int, value: int) -> np.ndarray:
    """The rows, and after them rows of one value up to `count`."""
    padded = np.full((count, *values.shape[1:]), value, values.dtype)
    padded[: len(values)] = values
    return padded
