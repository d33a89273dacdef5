"""`txjax_shakespeare`: 40,000 lines of plays by Shakespeare."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

PLAYS = Path(__file__).with_name("plays.txt.gz")
BOUNDS = {"train": (0.0, 0.9), "validation": (0.9, 0.95), "test": (0.95, 1.0)}  # shares of all letters


class Builder(tfds.core.GeneratorBasedBuilder):
    """One record for each split, letter for letter that of TFDS's `tiny_shakespeare`."""

    VERSION = tfds.core.Version("1.0.0")
    SPLITS = tuple(BOUNDS)

    def check(self) -> None:
        """Raises nothing: the plays come with txjax."""

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Plays of Shakespeare, as Karpathy collected them for char-rnn (2015); in the public domain.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(split) for split in self.SPLITS}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, str]]]:
        text = gzip.decompress(PLAYS.read_bytes()).decode()
        begin, end = (int(share * len(text)) for share in BOUNDS[split])
        yield 0, {"text": text[begin:end]}
