"""Everything that can be wrong with an experiment and be known before its data are opened. Read-only."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import jax

from txjax import sharding
from txjax.checks import Checks, inside, overlap
from txjax.data import Dataset, Tasks
from txjax.data.keys import check_spec
from txjax.errors import UserError, near_misses
from txjax.eval import Evaluator
from txjax.eval.resolution import resolve
from txjax.experiment import Experiment
from txjax.objectives import ComparingObjective, Objective, check_model_data, languages_of, missing_keys
from txjax.train.check_changes import check_changes
from txjax.train.check_scores import check_metric, named_metrics
from txjax.train.check_traces import Traces, check_model_state, check_traces
from txjax.train.state.pace import paced_optimizer
from txjax.train.state.state import Layout, batch_spec, build_layout
from txjax.tree import check_fields, walk
from txjax.user_code import user_code_errors


def check(experiment: Experiment) -> Layout:
    """Checks everything that can be known before the data are opened, and traces the model's variables for it.

    Opening the data may prepare them, which takes long, so a mistake that is found without them comes first.

    Returns:
      The layout of the state and of a batch.

    Raises:
      UserError: for all mistakes that don't follow from others, see `checks.UserErrors`; each names the field, what was
        expected, what came, and what to do.
    """
    with collect_errors(experiment) as checks:
        traces = check_run(checks, experiment)
        if traces is not None:
            checks.run(user_code_errors("config.model, config.objective")(check_model_state), experiment, traces.layout)
    assert traces is not None, "traces that are left out have an error"
    return traces.layout


def check_without_data(experiment: Experiment) -> Layout:
    """The part of `check` for a command that reads no data: the model, and whether it suits what the data are.

    The files of the data, which may be those of another machine, need not be there.

    Raises:
      UserError: see `check`.
    """
    with collect_errors(experiment) as checks:
        checks.run(check_layout, experiment, jax.device_count())
        checks.finish()
        objective = experiment.objective
        checks.run(_check_keys, "config.data", experiment.data, objective, objective.required_keys)
        checks.run(_check_objective, experiment, needs=("config.data",))
        checks.finish()
        with sharding.use_mesh(experiment.mesh) as mesh:
            return user_code_errors("config.model, config.objective")(build_layout)(experiment, mesh)


def check_run(checks: Checks, experiment: Experiment) -> Traces | None:
    """`check` inside of `collect_errors`, without the pass of a batch: the train step has that, and is traced next.

    Returns:
      None if the model can't be traced: `checks` has an error then.
    """
    resolved = _check_description(checks, experiment)
    return check_traces(checks, resolved) if _is_described(checks, "config.data") else None


def check_description(experiment: Experiment) -> None:
    """The part of `check` that traces no model.

    Raises:
      UserError: see `check`.
    """
    with collect_errors(experiment) as checks:
        _check_description(checks, experiment)


@contextlib.contextmanager
def collect_errors(stated: Experiment) -> Iterator[Checks]:
    """Yields checks of an experiment, and raises their errors at the end.

    An evaluation's mistake that it has from the training data is left out.

    Args:
      stated: the experiment before it is resolved.
    """
    checks = Checks()
    with user_code_errors("config"):
        yield checks
    checks.errors = _without_inherited(checks.errors, stated)
    checks.finish()


def _check_description(checks: Checks, experiment: Experiment) -> Experiment:
    """Checks ranges, the mesh, data, the objective's keys, evaluations, trackers and the schedule.

    Returns:
      The experiment with the data of its evaluations filled in.
    """
    checks.run(check_layout, experiment, jax.device_count())
    if not (isinstance(experiment.data, Dataset) and isinstance(experiment.objective, Objective)):
        checks.finish()
    resolved = resolve(experiment, checks)
    objective = resolved.objective
    _check_data(checks, "config.data", resolved.data, objective, objective.required_keys)
    if _is_described(checks, "config.data"):
        checks.run(_check_objective, resolved, needs=("config.model", "config.objective"))
    for name, evaluator in resolved.evals.items():
        _check_evaluation(checks, f"config.evals.{name}", evaluator, resolved)
    checks.run(languages_of, resolved)
    checks.run(_check_shares, resolved, needs=("config.data", "config.num_steps", "config.seed"))
    intervals = [f"config.evals.{name}.every_steps" for name in experiment.evals]
    for field, metric in named_metrics(experiment):
        checks.run(check_metric, field, metric, experiment.evals, needs=[field.rpartition(".")[0]])
    checks.run(_check_best, experiment, needs=["config.checkpoint", *intervals])
    for tracker in resolved.trackers:
        checks.run(tracker.check)
    unchanged = [f"config.{name}" for name in ("batch_size", "data", "mesh", "microbatches", "model", "objective")]
    checks.run(check_changes, resolved, _check_phase, needs=[*unchanged, "config.num_steps", "config.changes"])
    of_rate = [f"config.{name}" for name in ("optimizer", "num_steps", "changes", "data", "batch_size")]
    checks.run(lambda: paced_optimizer(resolved).lr(resolved.num_steps), needs=of_rate)
    return resolved


def _check_phase(checks: Checks, phase: Experiment) -> None:
    """Checks the batches and the data of a phase, of which all other fields have no error."""
    checks.run(check_layout, phase, jax.device_count())
    checks.finish()
    objective = phase.objective
    _check_data(checks, "config.data", phase.data, objective, objective.required_keys)
    checks.finish()
    _check_objective(phase)


def _check_objective(experiment: Experiment) -> None:
    objective = experiment.objective
    with inside("config.objective", "objective"):
        objective.check(experiment.model, experiment.data)
    jax.eval_shape(lambda batch: objective.check_model(experiment.model, batch), batch_spec(experiment.data, 1))


def _check_shares(experiment: Experiment) -> None:
    """Checks that each task has batches in the run."""
    shares = experiment.data.batch_shares(experiment.seed, experiment.num_steps)
    if missing := [task for task, share in shares.items() if not share]:
        expected = f"ratios by which each task has one of the {experiment.num_steps} batches, or more"
        raise UserError("config.data.ratios", expected, f"none for {', '.join(missing)}")


def _check_evaluation(checks: Checks, where: str, evaluator: Evaluator, experiment: Experiment) -> None:
    """Checks an evaluation's data, and if these and the training data are described, that it fits the run."""
    field = f"{where}.data"
    model, objective, train = evaluator.part(experiment.model, experiment.objective, experiment.data)
    with inside(where, "eval"):
        needed = evaluator.required_keys(objective)
    _check_data(checks, field, evaluator.data, evaluator, needed)
    if _is_described(checks, field) and _is_described(checks, "config.data"):
        checks.run(_check_fit, where, evaluator, model, objective, train, needs=("config.model", "config.objective"))


def _check_fit(where: str, evaluator: Evaluator, model: Any, objective: Objective, train: Dataset) -> None:
    """Checks an evaluation's data against the model, and the evaluator against the run."""
    field = f"{where}.data"
    if isinstance(evaluator.data, Tasks):
        expected = "the data set of one task, which the evaluation's `task` names"
        raise UserError(field, expected, type(evaluator.data).__name__)
    with inside(where, "eval"):
        check_model_data(model, evaluator.data, field)
        evaluator.check(model, objective, train)


def _is_described(checks: Checks, field: str) -> bool:
    """Whether the errors of a data set are only about where its records are, so that its examples are described."""
    wrong = [error.field for error in checks.errors if overlap(error.field, field)]
    return all(path.rpartition(".")[2] in ("name", "split", "data_dir") for path in wrong)


def _without_inherited(errors: list[UserError], experiment: Experiment) -> list[UserError]:
    """The errors but those of fields that an evaluation has from the training data, which have an error there."""
    stated = {path for path, value in walk(experiment) if value is not None}
    of_training = {error.field.rpartition(".")[2] for error in errors if overlap(error.field, "config.data")}

    def is_inherited(path: str) -> bool:
        return path.startswith("config.evals.") and path not in stated and path.rpartition(".")[2] in of_training

    return [error for error in errors if not is_inherited(error.field)]


def _check_names(experiment: Experiment) -> None:
    """Names of evaluations become names of folders, and parts of metrics' names."""
    for name in experiment.evals:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
            expected = "names of letters, digits, _, - and . (not the first), 64 at most"
            raise UserError("config.evals", expected, name if len(name) < 80 else name[:80] + "...")


def check_layout(experiment: Experiment, num_devices: int) -> None:
    """Ranges, and whether mesh and batch suit so many devices.

    Raises:
      UserError: for all mistakes that don't follow from others.
    """
    checks = Checks()
    checks.run(check_fields, experiment)
    checks.run(_check_model, experiment.model, needs=["config.model"])
    checks.run(_check_names, experiment)
    checks.run(experiment.mesh.sizes, num_devices, needs=["config.mesh"])
    checks.run(_check_batch_size, experiment, needs=["config.batch_size", "config.microbatches"])
    batches = {"config.batch_size": experiment.batch_size // max(experiment.microbatches, 1)}
    batches |= {f"config.evals.{name}.batch_size": e.batch_size for name, e in experiment.evals.items() if e.batch_size}
    for field, size in batches.items():
        needed = [field, "config.mesh", "config.microbatches", "config.model.stack"]
        checks.run(_check_batch, field, size, experiment, num_devices, needs=needed)
    checks.finish()


def _check_model(model: Any) -> None:
    if not callable(getattr(model, "init", None)):
        raise UserError("config.model", "a model, which is a Linen module", type(model).__name__)


def _check_batch_size(experiment: Experiment) -> None:
    if experiment.batch_size % experiment.microbatches:
        expected = f"a multiple of microbatches = {experiment.microbatches}"
        raise UserError("config.batch_size", expected, experiment.batch_size)
    if isinstance(experiment.objective, ComparingObjective) and experiment.batch_size < 2:
        expected = f"at least 2, since {type(experiment.objective).__name__} compares the examples of a batch"
        raise UserError("config.batch_size", expected, experiment.batch_size)
    inner = (value for path, value in walk(experiment.objective, "") if path)
    inside_another = [type(value).__name__ for value in inner if isinstance(value, ComparingObjective)]
    if experiment.microbatches > 1 and inside_another:
        expected = f"1, since {inside_another[0]} compares the examples of a batch, inside another objective"
        raise UserError("config.microbatches", expected, experiment.microbatches)


def _check_batch(field: str, size: int, experiment: Experiment, num_devices: int) -> None:
    """Checks that a batch can be split over the devices, and inside a pipeline."""
    mesh = experiment.mesh
    copies = mesh.num_shards("batch", num_devices)
    stages = mesh.num_shards("layers", num_devices)
    parts = getattr(getattr(experiment.model, "stack", None), "microbatches", None) or stages
    if size % copies:
        over = " * ".join(f"mesh.{axis}" for axis in mesh.table()["batch"])
        cut = f" in each of {experiment.microbatches} microbatches" if experiment.microbatches > 1 else ""
        raise UserError(field, f"a multiple of {over} = {copies}{cut}", size)
    if stages > 1 and size % (rows := parts * copies // stages):
        inner = f"the {copies // stages} parts of the batch inside the pipeline"
        raise UserError(field, f"a multiple of model.stack.microbatches = {parts} times {inner} = {rows}", size)


def _check_data(checks: Checks, field: str, data: Dataset, asker: Any, needed: tuple[str, ...]) -> None:
    """Checks a data set whose fields have values of the right kinds, and that it has the keys that `asker` needs."""
    if not checks.has_error(field):
        checks.run(_check_settings, field, data)
        checks.run(_check_keys, field, data, asker, needed)


def _check_settings(field: str, data: Dataset) -> None:
    with inside(field, "data"):
        data.check()
        check_spec(type(data).__name__, data.spec(), data.keys())


def _check_keys(field: str, data: Dataset, asker: Any, needed: tuple[str, ...]) -> None:
    with inside(field, "data"):
        spec = data.spec()
    if missing := missing_keys(needed, spec):
        expected = f"examples with {', '.join(needed)} ({type(asker).__name__} asks for them)"
        got = f"{type(data).__name__} with {', '.join(spec)}"
        raise UserError(field, expected, got, near_misses(missing[0], spec))


def _check_best(experiment: Experiment) -> None:
    best = experiment.checkpoint.best
    if best is None:
        return
    name = best.split("/")[1]
    every_steps = experiment.evals[name].every_steps
    if experiment.checkpoint.every_steps % every_steps:
        expected = f"a multiple of config.evals.{name}.every_steps = {every_steps}"
        hint = "checkpoint.best needs the score of every step that is saved"
        raise UserError("config.checkpoint.every_steps", expected, experiment.checkpoint.every_steps, hint=hint)
