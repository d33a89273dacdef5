"""Runs that trained different adapters of one model, side by side: the frozen parameters are loaded once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from txjax.cli.load_run import OpenRun
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.checkpoint import Store
    from txjax.experiment import Experiment
    from txjax.types import PyTree

FIELD = "--adapters"


class Side(NamedTuple):
    """One of the runs.

    Attributes:
      workdir: its folder.
      variables: of the model at `step`.
    """

    workdir: Path
    variables: PyTree
    step: int


def add_adapters(parser: argparse.ArgumentParser) -> None:
    """Adds the flag that names the other runs."""
    meaning = "other runs of the same model on the same frozen parameters, side by side with this one"
    parser.add_argument(FIELD, nargs="+", type=Path, default=[], metavar="RUN", help=meaning)


def sides(flags: argparse.Namespace, experiment: Experiment, opened: OpenRun) -> Iterator[Side]:
    """The run that is open, then those of the flag, each at its step that the flags name.

    Arrays that all have are the same ones on the devices.

    Raises:
      UserError: a run of another model, or one whose frozen parameters are not bit for bit those of the first.
    """
    from txjax.checkpoint import Store, split
    from txjax.checkpoint.finite import check_finite
    from txjax.train.run.workdir import read_checkpoints
    from txjax.train.state.state import model_variables
    from txjax.train.state.subtrees import merge, pick
    from txjax.types import TrainState, flat_paths

    others = getattr(flags, "adapters", [])
    steps = [open_other(flags, experiment, workdir) for workdir in others]  # before anything is compiled
    yield Side(flags.workdir, opened.variables, opened.step)
    if not others:
        return
    first = Store(flags.workdir, read_checkpoints(flags.workdir))
    weights = split(opened.layout.abstract)["weights"]
    paths = flat_paths(weights["frozen"]).keys()
    frozen = pick(opened.variables["params"], lambda path: path in paths)
    for workdir, (store, step) in zip(others, steps, strict=True):
        check_frozen((first, opened.step), (store, step), frozen, weights["frozen"])
        adapter_weights = store.load_some(step, {"weights": {**weights, "frozen": {}}})["weights"]
        state = TrainState(**{**adapter_weights, "frozen": {}}, step=None, opt_state=None, skipped=None)  # type: ignore[arg-type]
        whole = model_variables(state)
        check_finite(workdir, step, flat_paths(whole))
        yield Side(workdir, {**whole, "params": merge(whole["params"], frozen)}, step)


def open_other(flags: argparse.Namespace, experiment: Experiment, workdir: Path) -> tuple[Store, int]:
    """The checkpoints of another run, and the step of them that the flags name.

    Raises:
      UserError: the folder is no run's, its model is another one, or it has no such step.
    """
    from txjax.checkpoint import Store
    from txjax.train.run.workdir import read_checkpoints

    try:
        check_model(flags, experiment, workdir)
        store = Store(workdir, read_checkpoints(workdir))
        return store, store.choose(flags.step)
    except UserError as error:
        raise error.with_path(FIELD, "--workdir") from None


def check_model(flags: argparse.Namespace, experiment: Experiment, workdir: Path) -> None:
    """Raises UserError if the run's model is not the experiment's."""
    from txjax.experiment import Experiment, with_default_eval_data
    from txjax.modules import trusted_modules
    from txjax.train.run.workdir import read_config
    from txjax.tree import identity

    other_run = read_config(workdir, trusted_modules(flags.trust))
    theirs = with_default_eval_data(other_run).model if isinstance(other_run, Experiment) else other_run
    for (path, *ours), (_, *other) in zip(identity(experiment.model), identity(theirs), strict=False):
        if ours != other:
            hint = f"{path.lstrip('.') or 'the model'} differs"
            raise UserError(FIELD, f"runs of the model of {flags.workdir}", str(workdir), hint=hint)


def check_frozen(first: tuple[Store, int], other: tuple[Store, int], arrays: PyTree, abstract: PyTree) -> None:
    """Raises UserError if the frozen parameters of two steps differ.

    They are not read if both steps have all of them from the same checkpoints.

    Args:
      arrays: of the first.
    """
    import numpy as np

    from txjax.checkpoint.origins import origins_of_record
    from txjax.types import flat_paths

    count = len(flat_paths(abstract))

    def origins_of(store: Store, step: int) -> set[tuple[str, str, str]]:
        origins = origins_of_record(store.record(step))
        return {(here, there, origin.digest) for origin in origins for here, there in origin.arrays.items()}

    ours = origins_of(*first)
    if not count or (ours == origins_of(*other) and len(ours) == count):
        return
    store, step = other
    theirs = flat_paths(store.load_some(step, {"weights": {"frozen": abstract}})["weights"]["frozen"])
    for path, x in flat_paths(arrays).items():
        if not np.array_equal(x, theirs[path]):
            workdir = store.folder.parent
            raise UserError(FIELD, "runs on the same frozen parameters", str(workdir), hint=f"{path} differs")
