"""What a dataset is: a config value that describes its examples without data, and opens to a random-access source."""

import dataclasses
from typing import Protocol, runtime_checkable

import jax
import numpy as np

Example = dict[str, np.ndarray]


@runtime_checkable
class Source(Protocol):
    """Examples by number. It is read by several threads at once.

    Attributes:
      fingerprint: a hash of the data's content; the same data elsewhere has the same one.
    """

    fingerprint: str

    def __len__(self) -> int:
        """How many examples an epoch has."""
        ...

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        """Example `index` as epoch `epoch` shows it: what `Dataset.spec` says, without the `id` (the loader's).

        Every draw comes from `rng`, which is keyed by (seed, epoch, example). Epoch 0 is the one evaluation reads.
        """
        ...


@dataclasses.dataclass
class Dataset:
    """Examples that can be described before they are there."""

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """One example, keyed by `types.BATCH_KEYS`, without touching data."""
        raise NotImplementedError

    def vocab(self) -> int | None:
        """The smallest vocabulary a model of this data needs; None where there are no tokens."""
        return None

    def check(self) -> None:
        """Reads metadata at most, downloads and prepares nothing.

        Raises:
          UserError: the set, its split or a feature is missing, or a setting doesn't fit it.
        """
        raise NotImplementedError

    def open(self) -> Source:
        """The examples; prepares what isn't prepared yet (under a lock, with a progress bar).

        Raises:
          UserError: as `check`, and where the data itself doesn't fit the settings.
        """
        raise NotImplementedError


@dataclasses.dataclass
class TFDSDataset(Dataset):
    """A TFDS data set made into examples.

    Attributes:
      name: TFDS's name, with config and version if you like: `glue/mrpc`, `fashion_mnist:3.0.1`. If None, in an
        evaluation: the training data's (`data.following`).
      split: TFDS's split syntax: `train`, `train[:90%]`, `train+validation`.
      data_dir: the folder that holds the prepared sets. If None, in an evaluation on the training data's set: theirs;
        else TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets, and txjax's cache for the embedded sets.
    """

    name: str | None = None
    split: str = "train"
    data_dir: str | None = None
