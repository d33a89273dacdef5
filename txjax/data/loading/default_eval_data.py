"""Evaluation data that default to the training data: their name, and what describes their examples."""

import contextlib
import copy

from txjax.data.dataset import Dataset, RecordDataset, described_fields
from txjax.errors import UserError
from txjax.tree import walk


def sets(data: Dataset) -> dict[str, RecordDataset]:
    """The data sets of records in a data set, by path: itself, or the parts of a mixture."""
    return {path: node for path, node in walk(data, "data") if isinstance(node, RecordDataset)}


def follow_training_data(data: Dataset, train: Dataset) -> Dataset:
    """A copy in which every data set without a name and a source has the training data's, and its `data_dir`.

    In a mixture the name comes from the training mixture's part of the same name. A set with the same name as the
    training data's also has its `data_dir`, if it has none of its own.

    A field that describes the examples (`dataset.describing_field`) and has no value gets that of the training data,
    if these are of the class that has the field; a tokenizer, whatever the class. Otherwise it gets its default.

    Raises:
      UserError: a name is missing, and the training data are several sets or none of TFDS.
    """
    data = copy.deepcopy(data)
    known = sets(train)
    names = {(node.name, node.data_dir, repr(node.source)) for node in known.values()}
    for path, node in sets(data).items():
        like = known.get(path) or (next(iter(known.values())) if len(names) == 1 else None)
        if node.name is None and node.source is None and like is None:
            names_of_sets = ", ".join(sorted(str(name) for name, *_ in names)) or f"a {type(train).__name__}"
            hint = f"the default needs training data of one TFDS data set; these are {names_of_sets}"
            raise UserError(f"{path}.name", "the name of a TFDS data set", None, hint=hint)
        if like is not None and node.source is None and node.name in (None, like.name):
            node.name = like.name
            node.data_dir = node.data_dir or like.data_dir
            node.source = copy.deepcopy(like.source)
        for field in described_fields(node):
            if like is not None and getattr(node, field) is None and _shares_field(node, like, field):
                setattr(node, field, copy.deepcopy(getattr(like, field)))
        node.fill_defaults()
    return data


def fill_default_fields(data: Dataset) -> Dataset:
    """A copy in which fields without a value have their defaults, or what the set's metadata say, if it is there.

    A set that is missing is no error here: the checks of a run report it.
    """
    data = copy.deepcopy(data)
    for node in sets(data).values():
        node.fill_defaults()
        with contextlib.suppress(UserError):
            node.fill_from_set()
    return data


def _shares_field(data: RecordDataset, train: RecordDataset, name: str) -> bool:
    """Whether a field means the same in two data sets: both classes have it from the same one, or it is a tokenizer."""
    fields, of_train = (type(node).__dataclass_fields__ for node in (data, train))
    return name in of_train and (name == "tokenizer" or fields[name] is of_train[name])


def names_and_splits(data: Dataset) -> tuple[str, str]:
    """The names and the splits of a data set, for display."""
    parts = sets(data).values()
    names = dict.fromkeys(str(part.name if part.source is None else part.source) for part in parts)
    splits = dict.fromkeys(part.split for part in parts)
    return " + ".join(names) or type(data).__name__, " + ".join(splits) or "-"


def differences(data: Dataset, train: Dataset) -> list[str]:
    """The differences between examples of an evaluation and of training, other than the split, one phrase each."""
    phrases = []
    spec = data.spec()
    other = train.spec()
    names = names_and_splits(data)[0]
    train_names = names_and_splits(train)[0]
    if names != train_names:
        phrases.append(f"{names} (training: {train_names})")
    for key in sorted(set(spec) & set(other)):
        here, there = ((list(x.shape), str(x.dtype)) for x in (spec[key], other[key]))
        if here != there:
            phrases.append(f"{key} {here[1]}{here[0]} (training: {there[1]}{there[0]})")
    for key in ("tokenizer", "source_tokenizer"):
        if hasattr(data, key) and hasattr(train, key) and getattr(data, key) != getattr(train, key):
            phrases.append(f"another {key.replace('_', ' ')} than training")
    return phrases
