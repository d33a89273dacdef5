"""The builder of `made_scenes`."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow_datasets as tfds


class Builder(tfds.core.GeneratorBasedBuilder):
    """The records of its field `records`."""

    VERSION = tfds.core.Version("1.0.0")
    records: Sequence[dict[str, Any]]

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=(None, None, 1)),
            "instances": tfds.features.Image(shape=(None, None, 1)),
            "objects": tfds.features.Sequence(
                {"bbox": tfds.features.BBoxFeature(), "label": tfds.features.ClassLabel(num_classes=3)}
            ),
            "places": tfds.features.Sequence({"label": tfds.features.ClassLabel(num_classes=3)}),
        }
        features = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, description="Made up.", features=features, disable_shuffling=True)

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator:
        for i, record in enumerate(self.records):
            objects = [{"bbox": box, "label": j % 3} for j, box in enumerate(record["boxes"])]
            files = {name: io.BytesIO(record[name]) for name in ("image", "instances")}
            yield i, {**files, "objects": objects, "places": [{"label": 0}]}
