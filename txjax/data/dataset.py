"""The dataset interface: a config value that describes its examples without data, and opens a random-access source."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from txjax.data.keys import Key
from txjax.data.sources.record_source import RecordSource, RecordSplit
from txjax.data.sources.source_of import source_at, source_field, source_of
from txjax.errors import UserError
from txjax.types import config_field

Example = dict[str, np.ndarray]
Spec = dict[str, jax.ShapeDtypeStruct]
DESCRIBED = "described"  # the metadata of a field, its default


@runtime_checkable
class Source(Protocol):
    """Random access to examples by index, by several threads at once.

    Attributes:
      fingerprint: a hash of the data's content, the same on every machine.
    """

    fingerprint: str

    def __len__(self) -> int:
        """The number of examples of an epoch."""
        ...

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        """Example `index` of epoch `epoch`, as `Dataset.spec` describes it, without `id`, which the loader adds.

        All randomness comes from `rng`, which is keyed by (seed, epoch, example). Evaluation reads epoch 0.
        """
        ...


@dataclasses.dataclass
class Dataset:
    """Base class of datasets: examples whose shapes and dtypes are known without data."""

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of one example, by `keys.BATCH_KEYS` or own `keys`, without reading data."""
        raise NotImplementedError

    def batch_specs(self) -> dict[str, Spec]:
        """The spec of the examples in a batch, by the task that the batch is of: `spec` where all batches are alike."""
        return {"": self.spec()}

    def batch_shares(self, seed: int, steps: int) -> dict[str, float]:
        """The share of a run's batches that are of each task of `batch_specs`."""
        return {"": 1.0}

    def keys(self) -> dict[str, Key]:
        """The keys of its examples that `keys.BATCH_KEYS` lacks: their shape, B included, dtype and meaning."""
        return {}

    def vocab(self) -> int | None:
        """The smallest vocabulary size that a model of this data needs; None if the data have no tokens."""
        return None

    def source_vocab(self) -> int | None:
        """The same for the tokens of a source that has a tokenizer of its own; None if there is one tokenizer."""
        return None

    def class_names(self) -> tuple[str, ...] | None:
        """The names of its classes, in the order of their numbers; None if it has none. Reads at most metadata."""
        return None

    def without_epochs(self) -> str | None:
        """Why an epoch of it is not every example once, for a message; None if it is."""
        return None

    def drawn_lengths(self) -> str | None:
        """The field that draws the lengths of its examples anew in every epoch, for a message; None if none does."""
        return None

    def check(self) -> None:
        """Checks the settings; reads at most metadata, and downloads and prepares nothing.

        Raises:
          UserError: the data set, its split or a feature is missing, or a setting doesn't fit it.
        """
        raise NotImplementedError

    def open(self) -> Source:
        """Opens the examples; prepares data that aren't prepared yet (under a lock, with a progress bar).

        Raises:
          UserError: as `check`, or the data don't fit the settings.
        """
        raise NotImplementedError


def open_parts(parts: Mapping[str, Dataset]) -> dict[str, Source]:
    """The sources of the data sets that a data set's field `parts` holds. Their errors name the part."""
    sources = {}
    for name, part in parts.items():
        try:
            sources[name] = part.open()
        except UserError as error:
            raise error.with_path(f"data.parts.{name}", "data") from None
    return sources


def describing_field(default: Any = MISSING, *, factory: Callable[[], Any] | None = None, **limits: Any) -> Any:
    """A field that describes the examples: an evaluation that leaves it out has the training data's.

    It is None until it has a value. A data set with a name has the default from the start; without a name,
    `data.follow_training_data` gives it the training data's value or else the default.

    Args:
      factory: makes the default.
      limits: the range of its values, see `config_field`.
    """
    field = config_field(None, **limits)
    return dataclasses.field(default=None, metadata={**field.metadata, DESCRIBED: factory or (lambda: default)})


def described_fields(data: Dataset) -> dict[str, Callable[[], Any]]:
    """The names of the fields that describe the examples of a data set, with what makes their defaults."""
    return {field.name: field.metadata[DESCRIBED] for field in dataclasses.fields(data) if DESCRIBED in field.metadata}


@dataclasses.dataclass
class RecordDataset(Dataset):
    """Examples of the records of a TFDS data set, or of another source.

    An evaluation that leaves out the fields that describe its examples, such as `length` or `shape`, has the training
    data's (`describing_field`).

    Attributes:
      name: TFDS's name, with optional config and version: `glue/mrpc`, `fashion_mnist:3.0.1`. If None, in an
        evaluation: the training data's (`data.follow_training_data`).
      split: TFDS's split syntax: `train`, `train[:90%]`, `train+validation`.
      data_dir: the folder of the prepared sets. If None, the training data's in an evaluation on the same set;
        else TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets, and txjax's cache for the embedded sets.
      source: where the records are, if not in TFDS: a path or a pattern of paths, whose ending says what the files are,
        or a value such as `JSONLines("my/*.jsonl")`; `name` and `data_dir` mean nothing then. If None, `name` says it.
    """

    name: str | None = None
    split: str = "train"
    data_dir: str | None = None
    source: RecordSource | str | None = source_field()

    def __post_init__(self) -> None:
        if self.name is not None or self.source is not None:
            self.fill_defaults()

    @property
    def record_split(self) -> RecordSplit:
        """The split of the source that is read."""
        return RecordSplit(source_of(self, self.source_at), self.split, self.class_features())

    def source_at(self, path: str) -> RecordSource:
        """The source that a path says, by the ending of its name."""
        return source_at(path)

    def class_features(self) -> tuple[str, ...]:
        """The features that are read as classes."""
        return ()

    def fill_defaults(self) -> None:
        """Sets described fields without a value to their defaults."""
        for name, default in described_fields(self).items():
            if getattr(self, name) is None:
                setattr(self, name, default())

    def fill_from_set(self) -> None:
        """Sets fields without a value that follow from the set's metadata.

        Raises:
          UserError: the set or a feature of it is missing.
        """
