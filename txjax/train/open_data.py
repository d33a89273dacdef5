"""Opens the data sets of an experiment, and compares examples of them with what their specs say."""

from collections.abc import Sequence

import jax
import numpy as np

from txjax.checks import inside
from txjax.data import Dataset, Source
from txjax.data.dataset import Example
from txjax.data.loading.alternating_tasks import AlternatingSource
from txjax.data.loading.index import sample_indices
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.train.check import collect_errors
from txjax.user_code import user_code_errors


def open_all(data_sets: Sequence[tuple[str, Dataset]], stated: Experiment) -> list[Source]:
    """The sources of data sets, as `open_data` opens them.

    Args:
      data_sets: each with its config field.
      stated: the experiment before it is resolved.

    Raises:
      UserError: for every data set that can't be used, unless an evaluation's mistake is that of the training data.
    """
    with collect_errors(stated) as checks:
        sources = [checks.run(open_data, field, data) for field, data in data_sets]
    return [source for source in sources if source is not None]


def open_data(field: str, data: Dataset) -> Source:
    """The source of a data set, of which some examples agree with its spec. `field` is the data set's config field.

    Raises:
      UserError: what `Dataset.open` finds, no example, one that can't be read, or one with other arrays.
    """
    with user_code_errors(field), inside(field, "data"):
        source = data.open()
        if not len(source):
            raise UserError("data", "at least one example", 0)
        parts = source.parts if isinstance(source, AlternatingSource) else {"": source}
        for task, spec in data.batch_specs().items():
            for index in sample_indices(len(parts[task])):
                _compare(index, parts[task].example(index, 0, np.random.default_rng(0)), spec)
    return source


def _compare(index: int, example: Example, spec: dict[str, jax.ShapeDtypeStruct]) -> None:
    """Compares an example with the spec of its data set."""
    where = f"example {index}"
    spec = {key: x for key, x in spec.items() if key != "id"}
    if set(spec) != set(example):
        expected = f"examples with {', '.join(sorted(spec))}, as its spec() says"
        raise UserError("data", expected, f"{where} with {', '.join(sorted(example))}")
    for key, x in spec.items():
        array = np.asarray(example[key])
        if (array.shape, array.dtype) != (x.shape, x.dtype):
            expected = f"{key} to be {x.dtype}{list(x.shape)}, as its spec() says"
            raise UserError("data", expected, f"{array.dtype}{list(array.shape)}", hint=where)
