"""The builder of `made_photos`."""

import io
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow_datasets as tfds

from made_photos import CLASSES, objects


class Builder(tfds.core.GeneratorBasedBuilder):
    """The files of its field `files`, by split."""

    VERSION = tfds.core.Version("1.0.0")
    files: dict[str, Sequence[bytes]]

    def _info(self) -> tfds.core.DatasetInfo:
        kinds = tfds.features.ClassLabel(num_classes=3)
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(num_classes=CLASSES),
            "label_angle": tfds.features.ClassLabel(num_classes=40),
            "objects": tfds.features.Sequence(
                {"type": kinds, "location": tfds.features.Tensor(shape=(3,), dtype=np.float32)}
            ),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Made up.",
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(files) for split, files in self.files.items()}

    def _generate_examples(self, files: Sequence[bytes]) -> Iterator:
        for i, content in enumerate(files):
            image = {"image": io.BytesIO(content), "label": i % CLASSES, "label_angle": 5 * i % 40}
            yield i, image | {"objects": objects(i)}
