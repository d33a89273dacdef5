"""Data sets that follow the training data: what an evaluation does not name is what the run trains on."""

import copy

from txjax.data.dataset import Dataset, TFDSDataset
from txjax.tree import walk
from txjax.types import UserError


def sets(data: Dataset) -> dict[str, TFDSDataset]:
    """The TFDS data sets that a data set consists of, by their place in it: itself, or the parts of a mixture."""
    return {path: node for path, node in walk(data, "data") if isinstance(node, TFDSDataset)}


def following(data: Dataset, train: Dataset) -> Dataset:
    """A copy in which every TFDS data set without a name has that of the training data, and its `data_dir`.

    In a mixture the name comes from the training mixture's part of the same name. A set that is named as the
    training data's has their `data_dir` too, if it has none of its own.

    Raises:
      UserError: the training data are several sets, or none of TFDS's, so that there is no one name to take.
    """
    data, known = copy.deepcopy(data), sets(train)
    names = {(each.name, each.data_dir) for each in known.values()}
    for path, node in sets(data).items():
        like = known.get(path) or (next(iter(known.values())) if len(names) == 1 else None)
        if node.name is None and like is None:
            told = ", ".join(sorted(str(name) for name, _ in names)) or f"a {type(train).__name__}"
            hint = f"only one data set can be followed, and the training data are {told}"
            raise UserError(f"{path}.name", "the name of a TFDS data set", None, hint=hint)
        if like is not None and node.name in (None, like.name):
            node.name, node.data_dir = like.name, node.data_dir or like.data_dir
    return data


def told(data: Dataset) -> tuple[str, str]:
    """The names and the splits of a data set, for people."""
    parts = sets(data).values()
    names, splits = (dict.fromkeys(str(getattr(part, field)) for part in parts) for field in ("name", "split"))
    return " + ".join(names) or type(data).__name__, " + ".join(splits) or "-"


def differences(data: Dataset, train: Dataset) -> list[str]:
    """How examples of an evaluation differ from those of training, besides the split: a phrase each."""
    found, spec, other = [], data.spec(), train.spec()
    if told(data)[0] != told(train)[0]:
        found.append(f"{told(data)[0]} (training: {told(train)[0]})")
    for key in sorted(set(spec) & set(other)):
        here, there = ((list(x.shape), str(x.dtype)) for x in (spec[key], other[key]))
        if here != there:
            found.append(f"{key} {here[1]}{here[0]} (training: {there[1]}{there[0]})")
    if getattr(data, "tokenizer", None) != getattr(train, "tokenizer", None):
        found.append("another tokenizer than training")
    return found
