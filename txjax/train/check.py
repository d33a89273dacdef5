"""Everything that can be wrong with an experiment and be known before its layout is traced. Read-only."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from txjax.data import Dataset, Source, Tasks
from txjax.data.keys import check_spec
from txjax.experiment import Experiment, resolved
from txjax.modules import own_code
from txjax.objectives import check_vocab, languages_of, missing_keys
from txjax.train.frozen_parts import check_frozen
from txjax.train.shared_modules import check_shared_modules
from txjax.train.state import batch_spec
from txjax.tree import check_fields
from txjax.types import UserError, near_misses


def check(experiment: Experiment) -> None:
    """Checks ranges, the mesh, data, the objective's keys, evaluations, trackers and the schedule.

    Raises:
      UserError: for the first mistake; names the field, what was expected, what came, and what to do.
    """
    check_layout(experiment, jax.device_count())
    experiment = resolved(experiment)
    model, objective, train = experiment.model, experiment.objective, experiment.data
    with _inside("config.objective", "objective"):
        _check_data("config.data", train, objective, objective.required_keys)
        objective.check(model, train)
    jax.eval_shape(lambda batch: objective.check_model(model, batch), batch_spec(train, 1))
    for name, evaluator in experiment.evals.items():
        with _inside(f"config.evals.{name}", "eval"):
            of_model, goal, of_train = evaluator.part(model, objective, train)
            field, needs = f"config.evals.{name}.data", evaluator.required_keys(goal)
            _check_data(field, evaluator.data, evaluator, needs)
            if isinstance(evaluator.data, Tasks):
                raise UserError(field, "the data set of one task, which the evaluation's `task` names", "Tasks")
            check_vocab(of_model, evaluator.data, field)
            evaluator.check(of_model, goal, of_train)
    languages_of(experiment)
    _check_best(experiment)
    check_shared_modules(experiment)
    check_frozen(experiment)
    for tracker in experiment.trackers:
        tracker.check()
    experiment.optimizer.lr(experiment.num_steps)


def open_data(field: str, data: Dataset) -> Source:
    """The source of a data set, whose first example agrees with its spec. `field` is the data set's config field.

    Raises:
      UserError: what `Dataset.open` finds, no example, or one with other arrays.
    """
    with own_code(field), _inside(field, "data"):
        source = data.open()
        if not len(source):
            raise UserError("data", "at least one example", 0)
        example = source.example(0, 0, np.random.default_rng(0))
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


def _check_names(experiment: Experiment) -> None:
    """Names of evaluations become names of folders, and parts of metrics' names."""
    for name in experiment.evals:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
            expected = "names of letters, digits, _, - and . (not the first), 64 at most"
            raise UserError("config.evals", expected, name if len(name) < 80 else name[:80] + "...")


def check_layout(experiment: Experiment, num_devices: int) -> None:
    """Ranges, and whether mesh and batch suit so many devices.

    Raises:
      UserError: for the first mistake.
    """
    check_fields(experiment)
    if not callable(getattr(experiment.model, "init", None)):
        raise UserError("config.model", "a model, which is a Linen module", type(experiment.model).__name__)
    _check_names(experiment)
    mesh = experiment.mesh
    mesh.sizes(num_devices)
    copies = mesh.num_shards("batch", num_devices)
    batches = {"config.batch_size": experiment.batch_size // experiment.microbatches}
    if experiment.batch_size % experiment.microbatches:
        raise UserError(
            "config.batch_size", f"a multiple of microbatches = {experiment.microbatches}", experiment.batch_size
        )
    batches |= {f"config.evals.{name}.batch_size": e.batch_size for name, e in experiment.evals.items() if e.batch_size}
    stages = mesh.num_shards("layers", num_devices)
    parts = getattr(getattr(experiment.model, "stack", None), "microbatches", None) or stages
    over = " * ".join(f"mesh.{axis}" for axis in mesh.table()["batch"])
    for field, size in batches.items():
        if size % copies:
            cut = f" in each of {experiment.microbatches} microbatches" if experiment.microbatches > 1 else ""
            raise UserError(field, f"a multiple of {over} = {copies}{cut}", size)
        if stages > 1 and size % (rows := parts * copies // stages):
            raise UserError(
                field,
                f"a multiple of model.stack.microbatches = {parts} times the {copies // stages} parts of the batch "
                f"inside the pipeline = {rows}",
                size,
            )


@contextlib.contextmanager
def _inside(place: str, root: str) -> Iterator[None]:
    """Errors inside name a component's fields by its place in the config."""
    try:
        yield
    except UserError as error:
        raise error.inside(place, root) from None


def _check_data(field: str, data: Dataset, asker: Any, needs: tuple[str, ...]) -> None:
    with _inside(field, "data"):
        data.check()
        spec = data.spec()
        check_spec(type(data).__name__, spec, data.keys())
    if missing := missing_keys(needs, spec):
        raise UserError(
            field,
            f"examples with {', '.join(needs)} ({type(asker).__name__} asks for them)",
            f"{type(data).__name__} with {', '.join(spec)}",
            near_misses(missing[0], spec),
        )


def _check_best(experiment: Experiment) -> None:
    best = experiment.checkpoint.best
    if best is None:
        return
    kind, _, rest = best.partition("/")
    name, _, metric = rest.partition("/")
    choices = [f"eval/{name}/loss" for name in experiment.evals]
    if kind != "eval" or name not in experiment.evals or not metric:
        raise UserError(
            "config.checkpoint.best", "a metric of an evaluation", best, near_misses(best, choices) or choices
        )
    if experiment.checkpoint.every_steps % experiment.evals[name].every_steps:
        raise UserError(
            "config.checkpoint.every_steps",
            f"a multiple of config.evals.{name}.every_steps = {experiment.evals[name].every_steps}",
            experiment.checkpoint.every_steps,
            hint="checkpoint.best needs the score of every step that is saved",
        )
