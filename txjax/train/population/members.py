"""The members of a population: prepared one after the other, and resumed at a step that all of them have."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from txjax import tree
from txjax.checkpoint import Store
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.train.open_data import open_data
from txjax.train.prepare import prepare
from txjax.train.prepared_run import Run
from txjax.train.run.changed_files import name_changed_files


def prepare_members(
    experiments: Sequence[Experiment], workdirs: Sequence[Path], allow_config_change: bool
) -> list[Run]:
    """Prepares resolved experiments that can share a program (`traced.check_together`): one, and the others like it.

    The layout, the start and the evaluations of all are the first one's. Equal training data are opened once.

    Raises:
      UserError: see `prepare`.
    """
    with name_changed_files(workdirs[0]):
        runs = [prepare(experiments[0], workdirs[0], allow_config_change)]
    for experiment, workdir in zip(experiments[1:], workdirs[1:], strict=True):
        config = tree.to_json(experiment.data)
        sources = [run.source for run in runs if tree.to_json(run.experiment.data) == config]
        source = sources[0] if sources else open_data("config.data", experiment.data)
        like = dataclasses.replace(runs[0], experiment=experiment, workdir=workdir, source=source)
        runs.append(dataclasses.replace(like, fingerprints=like.fingerprints | {"train": source.fingerprint}))
    return runs


def members_behind(stores: Sequence[Store], until: int | None) -> tuple[list[int], int | None]:
    """Who trains first, and until which step: all, unless no step is in all stores (a member had failed)."""
    saved_steps = [set(store.steps()) for store in stores]
    newest = [max(steps, default=0) for steps in saved_steps]
    lowest = min(newest)
    if set.intersection(*saved_steps) or lowest == max(newest):
        return list(range(len(stores))), until
    end = min(step for step in newest if step > lowest)
    return [i for i, step in enumerate(newest) if step == lowest], min(end, until or end)


def newest_of_all(stores: Sequence[Store]) -> int | None:
    """The newest step whose every bit is right in all stores, None where none has any.

    Raises:
      UserError: there are steps, and none that all have.
    """
    for store in stores:
        store.clean()
    saved_steps = [store.steps() for store in stores]
    for step in sorted(set.intersection(*map(set, saved_steps)), reverse=True):
        if all([store.verify_step(step) for store in stores]):
            return step
    if any(saved_steps):
        pairs = zip(stores, saved_steps, strict=True)
        saved = "; ".join(f"{store.folder.parent.name}: {steps}" for store, steps in pairs)
        raise UserError("--workdir", "a step that all members have", saved, hint="start again: those behind go first")
    return None
