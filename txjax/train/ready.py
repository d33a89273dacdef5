"""What is looked at before a run touches its workdir: the config, and the data, of which one real example is read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from txjax import distributed, tree
from txjax.backend import prepare
from txjax.checkpoint import Store
from txjax.data import Dataset, Source
from txjax.distributed import agree
from txjax.experiment import Experiment, resolved
from txjax.train.check import check
from txjax.train.init_from import Origin
from txjax.train.state import Layout
from txjax.types import Failure, UserError

DATA_SECONDS = 3600.0  # that processes wait for one that still prepares data


class Ready(NamedTuple):
    """Experiments that one program can train.

    Attributes:
      experiments: resolved.
      layout: of one run.
      origin: what they start from; None = a fresh draw, or what their workdirs hold.
      sources: the training data of each; the same data are one source.
      evals: the data of the first one's evaluations, by name.
      prints: the fingerprints of all data of each, by name.
      notes: what to tell of how JAX was set up.
    """

    experiments: list[Experiment]
    layout: Layout
    origin: Origin | None
    sources: list[Source]
    evals: dict[str, Source]
    prints: list[dict[str, str]]
    notes: list[str]


def ready(experiments: Sequence[Experiment], workdirs: Sequence[Path]) -> Ready:
    """Checks experiments that train together, and opens (where that is needed: prepares) their data.

    Writes nothing but the cache.

    Raises:
      UserError: for the first mistake; see `check` and `opened`.
      Failure: this process has other data than process 0.
    """
    notes = prepare()
    experiments = [resolved(experiment) for experiment in experiments]
    starts = agree("the start", lambda: not any(Store(workdir).steps() for workdir in workdirs))
    layout, origin = check(experiments[0], starts)
    written = [json.dumps(tree.to_json(experiment.data)) for experiment in experiments]
    different = {text: experiments[written.index(text)].data for text in dict.fromkeys(written)}
    sources = {text: opened("config.data", data) for text, data in different.items()}
    evals = {name: opened(f"config.evals.{name}.data", e.data) for name, e in experiments[0].evals.items()}
    tested = {f"eval/{name}": source.fingerprint for name, source in evals.items()}
    prints = [{"train": sources[text].fingerprint} | tested for text in written]
    for each in prints:
        _same_data(each)
    return Ready(experiments, layout, origin, [sources[text] for text in written], evals, prints, list(notes))


def opened(field: str, data: Dataset) -> Source:
    """The source of a data set, whose first example is as its spec says. `field` is where the data set stands.

    Raises:
      UserError: what `Dataset.open` finds, no example, or one with other arrays.
    """
    try:
        source = data.open()
        if not len(source):
            raise UserError("data", "at least one example", 0)
        example = source.example(0, 0, np.random.default_rng(0))
    except UserError as error:
        raise error.inside(field, "data") from None
    spec = {key: x for key, x in data.spec().items() if key != "id"}
    found = {key: np.asarray(value) for key, value in example.items()}
    if set(spec) != set(found):
        expected = f"examples with {', '.join(sorted(spec))}, as its spec() says"
        raise UserError(field, expected, ", ".join(sorted(found)))
    for key, x in spec.items():
        if (found[key].shape, found[key].dtype) != (x.shape, x.dtype):
            expected = f"{key} to be {x.dtype}{list(x.shape)}, as its spec() says"
            raise UserError(field, expected, f"{found[key].dtype}{list(found[key].shape)}")
    return source


def _same_data(prints: dict[str, str]) -> None:
    for name, there in agree("the data", lambda: prints, DATA_SECONDS).items():
        if prints[name] != there:
            raise Failure(f"the data of {name} on {distributed.name()} are not those of {distributed.name(0)}")
