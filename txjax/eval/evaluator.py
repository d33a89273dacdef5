"""The evaluator interface, and the context of the run that evaluators use."""

import collections
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from txjax import backend, distributed, tree
from txjax.data import Dataset, Limits, Source, eval_batches
from txjax.data.loading.limits import for_task
from txjax.errors import UserError, near_misses
from txjax.eval.results import GIVEN, ID, Rows, means
from txjax.eval.tracing import end_of_trace
from txjax.io.disk import dispensable
from txjax.io.files import leaves, replace_bytes
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, config_field

log = logging.getLogger("txjax")
Program = Callable[[PyTree, Batch], PyTree]
Programs = dict[Hashable, Program]
Evaluate = Callable[[PyTree, int], dict[str, float]]

AHEAD = 2  # batches dispatched to the devices before the host reads the first one's result


def shard_batch(batch: dict[str, Any], sharding: NamedSharding, size: int | None = None) -> Batch:
    """A global batch of `size` examples (if None, as many as in `batch`) from the rows of `distributed.local_rows`."""
    with jax.transfer_guard_host_to_device("allow"):  # with several hosts this counts as an implicit transfer
        return {
            k: jax.make_array_from_process_local_data(sharding, x, (size or len(x), *x.shape[1:]))
            for k, x in batch.items()
        }


def outline(model: Any, objective: Objective, data: Dataset) -> tuple[Any, PyTree]:
    """The shapes and dtypes of a model's output for a batch of 1 and of its variables, including `intermediates`."""

    def call(batch: Batch) -> tuple[Any, PyTree]:
        return model.init_with_output(_rngs(), **objective.inputs(model, batch), mutable=True)

    return jax.eval_shape(call, _batch_spec(data, 1))


def check_shapes(model: Any, objective: Objective, data: Dataset) -> None:
    """Raises the UserError of a model that doesn't take examples of these shapes, such as too long ones."""
    jax.eval_shape(lambda batch: objective.init(model, _rngs(), batch), _batch_spec(data, 1))


def _rngs() -> dict[str, jax.Array]:
    return {name: jax.random.key(0) for name in ("params", "dropout")}


def _batch_spec(data: Dataset, size: int, sharding: NamedSharding | None = None) -> dict[str, jax.ShapeDtypeStruct]:
    spec = data.spec().items()
    return {key: jax.ShapeDtypeStruct((size, *x.shape), x.dtype, sharding=sharding) for key, x in spec}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalSetup:
    """The parts of a run that an evaluator computes with: known before its data are opened.

    Attributes:
      evaluator: the evaluator itself.
      model: the run's model; of several tasks, as the evaluator's calls it.
      objective: the run's objective, or its task's.
      seed: the run's seed.
      train: the run's training data, or its task's.
      batch_size: examples in a global batch.
      sharding: the sharding of a batch's arrays.
      programs: the cache of `program`, shared by runs that are equal in model, objective, seed and training data.
    """

    evaluator: "Evaluator"
    model: Any
    objective: Objective
    seed: int
    train: Dataset
    batch_size: int
    sharding: NamedSharding
    programs: Programs = dataclasses.field(default_factory=dict)

    @property
    def batch(self) -> dict[str, jax.ShapeDtypeStruct]:
        """A batch of the evaluator's data: shapes, dtypes and shardings."""
        return _batch_spec(self.evaluator.data, self.batch_size, self.sharding)

    @property
    def whole(self) -> NamedSharding:
        """The sharding of a replicated array."""
        return NamedSharding(self.sharding.mesh, PartitionSpec())

    def program(self, function: Program, *more: Hashable) -> Program:
        """Jits `function` of variables and a batch; its output is replicated.

        Evaluators of one class whose fields are all equal share one compilation.

        Args:
          more: values that the function depends on besides the evaluator's fields and the context.
        """
        key = tree.identity(self.evaluator), function.__code__, more
        if key not in self.programs:
            self.programs[key] = backend.jit(function, out_shardings=self.whole)
        return self.programs[key]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context(EvalSetup):
    """The parts of a run that an evaluator may use.

    Attributes:
      name: the evaluator's name in `Experiment.evals`.
      source: the evaluator's own data, opened.
      folder: the workdir, for pictures and texts. If None, none are written.
      results: where `keep` puts the results of each example, by the evaluator's name. If None, they aren't wanted.
    """

    name: str
    source: Source
    folder: Path | None = None
    results: dict[str, Rows] | None = None

    def run_batches(
        self,
        program: Program,
        variables: PyTree,
        source: Source,
        max_batches: int | None = None,
        needs: Sequence[str] = (),
    ) -> Iterator[PyTree]:
        """Yields program(variables, batch) for each batch of a source as numpy arrays, equal on all hosts.

        A result is read while the devices compute the next ones, so they don't wait for the host; at most AHEAD batches
        are in flight.

        Args:
          needs: keys of a batch that the program compares with the model's output, such as `label`: an id outside the
            model's range is a UserError. (In `tokens` it always is.)
        """
        end_of_trace(program, variables, source, self.batch_size, self.sharding)
        batches = eval_batches(
            source,
            batch_size=self.batch_size,
            rows=distributed.local_rows(self.sharding, self.batch_size),
            limits=Limits.of(f"config.evals.{self.name}.data", self.model, needs),
        )
        started: collections.deque[PyTree] = collections.deque()
        with contextlib.closing(batches):
            for batch in itertools.islice(batches, max_batches):
                started.append(program(variables, shard_batch(batch, self.sharding, self.batch_size)))
                if len(started) > AHEAD:
                    yield jax.device_get(started.popleft())
            while started:
                yield jax.device_get(started.popleft())

    def put(self, arrays: PyTree) -> PyTree:
        """Puts numpy arrays, equal on all hosts, on all devices, replicated."""
        with jax.transfer_guard_host_to_device("allow"):
            return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self.whole, x, x.shape), arrays)

    def keep(self, rows: Rows) -> None:
        """Keeps the results of each example, if they are wanted: `Evaluator.rescore` gives the scores of any of them.

        Args:
          rows: columns [N ...], by name: `id`, `given`, and others (`eval.results`).
        """
        assert {ID, GIVEN} <= set(rows) and len({len(column) for column in rows.values()}) == 1
        if self.results is not None:
            self.results[self.name] = rows

    def warn_if_empty(self, scores: dict[str, float]) -> dict[str, float]:
        """The scores; warns if there are none."""
        if not scores:
            log.warning("evals.%s has no score: every weight of its examples is 0", self.name)
        return scores

    def write(self, kind: str, step: int, ending: str, content: bytes) -> None:
        """Writes the file KIND/NAME/STEP.ENDING of the workdir, if there is one; only host 0 writes.

        If a link leads out of the workdir, warns and writes nothing.
        """
        if self.folder is not None:
            write_made(self.folder, f"{kind}/{self.name}/{step}.{ending}", content)


def write_made(folder: Path, name: str, content: bytes) -> None:
    """Writes a file that an evaluation made into a workdir; only host 0 writes.

    If a link leads out of the workdir, or the disk fails, warns and writes nothing.
    """
    path = folder / name
    if distributed.is_primary():
        with dispensable(path):
            if leaves(path.parent, folder):
                raise OSError("a link leads out of the workdir")
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(path, content)


@dataclasses.dataclass
class Evaluator:
    """Base class of evaluators: data, when to evaluate, and the computation. A new one is one new file with a `start`.

    Attributes:
      data: the examples; each is evaluated once.
      every_steps: training steps between two evaluations; the last step is always evaluated.
      batch_size: examples in a global batch. If None, the run's.
      max_batches: the number of batches to evaluate. If None, all.
      task: the task that is evaluated, in a run of several (`objectives.MultiTask`): with its objective, on its
        data set. If None, the run has one.
    """

    data: Dataset
    every_steps: int = config_field(100, at_least=1)
    batch_size: int | None = config_field(None, at_least=1)
    max_batches: int | None = config_field(None, at_least=1)
    task: str | None = None

    def part(self, model: Any, objective: Objective, train: Dataset) -> tuple[Any, Objective, Dataset]:
        """What it evaluates of a run's model, objective and training data: all of them, or those of `task`.

        Raises:
          UserError: the run has no such task; the field is `eval.task`.
        """
        if self.task is None:
            return model, objective, train
        tasks = getattr(objective, "tasks", {})
        if self.task not in tasks:
            expected = f"a task of config.objective: {', '.join(tasks) or 'it has none'}"
            raise UserError("eval.task", expected, self.task, near_misses(self.task, tasks))
        return for_task(model, self.task), tasks[self.task], self.trained_on(train)

    def trained_on(self, train: Dataset) -> Dataset:
        """The part of the run's training data that belongs to `task`; all of them without one."""
        return train if self.task is None else getattr(train, "parts", {}).get(self.task, train)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        """Keys that a batch of `data` must have, "a | b" for one of two. `objective` is the run's, or its task's."""
        return objective.required_keys

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        """Checks, before compilation, that this evaluator fits the run's model, objective and training data.

        Raises:
          UserError: it doesn't fit; the field's name begins with `eval` for the evaluator itself.
        """

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        """The names of its scores; () if they are known only after an evaluation. Runs nothing.

        Args:
          setup: what `start` has, too: a program of it that is traced here needs no other trace there.
          variables: the model's variables, shapes, dtypes and shardings.
        """
        return ()

    def start(self, context: Context) -> Evaluate:
        """Called once per run; returns a function from (the model's variables, updates done) to the scores.

        It runs on all hosts, with equal results; only host 0 writes files.
        """
        raise NotImplementedError

    def keep_and_rescore(self, context: Context, rows: Rows) -> dict[str, float]:
        """Keeps the results of each example, and returns their scores: none of no example, with a warning."""
        context.keep(rows)
        return context.warn_if_empty(self.rescore(rows) if len(rows[ID]) else {})

    def rescore(self, rows: Rows) -> dict[str, float]:
        """The scores of results that `start` kept, or of some of their rows, drawn again: by default, means.

        Scores that it doesn't give have no interval.
        """
        return means(rows)
