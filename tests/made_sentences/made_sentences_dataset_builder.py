"""The builder of `made_sentences`."""

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from made_sentences import records


class Builder(tfds.core.GeneratorBasedBuilder):
    """Sentences by `made_sentences.records`."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        text, label = tfds.features.Text(), tfds.features.ClassLabel(num_classes=3)
        features = {"first": text, "second": text, "label": label, "score": np.float32}
        return tfds.core.DatasetInfo(
            builder=self,
            description="Made up.",
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {"train": enumerate(records(60)), "test": enumerate(records(10))}

    def _generate_examples(self) -> Iterator:
        raise NotImplementedError
