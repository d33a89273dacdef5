"""`txjax_digits`: scikit-learn's scanned digits (Alpaydin & Kaynak 1998, UCI ML repository)."""

import hashlib
import io
from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from txjax.errors import require

TEST_EXAMPLES = 297


class Builder(tfds.core.GeneratorBasedBuilder):
    """1,797 images of 8x8 pixels; the `test` split has 297, spread evenly over the classes.

    Pixels are 0 to 16 in the original; here they are round(pixel * 255 / 16), to use the range of a byte.
    """

    VERSION = tfds.core.Version("1.0.0")
    SPLITS = ("train", "test")

    def check(self) -> None:
        """Raises UserError if scikit-learn, which has the data, or Pillow isn't installed."""
        require("sklearn", "scikit-learn", "data.name")
        require("PIL", "pillow", "data.name")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Handwritten digits of 8x8 pixels, from scikit-learn.",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(8, 8, 1), dtype=np.uint8, encoding_format="png"),
                    "label": tfds.features.ClassLabel(num_classes=10),
                }
            ),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        order = stratified_order(digits.target)
        parts = {"train": order[TEST_EXAMPLES:], "test": order[:TEST_EXAMPLES]}
        return {split: self._generate_examples(images, digits.target, part) for split, part in parts.items()}

    def _generate_examples(
        self, images: np.ndarray, labels: np.ndarray, part: np.ndarray
    ) -> Iterator[tuple[int, dict[str, object]]]:
        for i in part:
            yield int(i), {"image": png(images[i]), "label": int(labels[i])}


def stratified_order(labels: np.ndarray) -> np.ndarray:
    """A fixed random order of the examples in which every class is spread evenly.

    Inside a class the order is by a hash of the example's index, so it depends on no library's random generator.
    """
    chance = np.array([int(hashlib.sha256(b"%d" % i).hexdigest()[:12], 16) for i in range(len(labels))])
    rank = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rank[members[np.argsort(chance[members])]] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((chance, rank))


def png(image: np.ndarray) -> bytes:
    """A greyscale image, uint8 [H W], as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="png")
    return buffer.getvalue()
