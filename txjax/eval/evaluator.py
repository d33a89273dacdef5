"""What every evaluator is, and what it may use of the run that it measures."""

import collections
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from txjax import backend, distributed, tree
from txjax.data import Dataset, Limits, Source, eval_batches
from txjax.io.disk import dispensable
from txjax.io.files import leaves, replace_bytes
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, config_field

Program = Callable[[PyTree, Batch], PyTree]
Programs = dict[Hashable, Program]
Evaluate = Callable[[PyTree, int], dict[str, float]]

AHEAD = 2  # batches that the devices are given before the host reads the first one's result


def shard_batch(batch: dict[str, Any], sharding: NamedSharding, size: int | None = None) -> Batch:
    """The rows of `size` examples (if None, of all) that `distributed.local_rows` gives, on this process's devices."""
    with jax.transfer_guard_host_to_device("allow"):  # of several hosts, JAX takes this for an oversight
        return {
            k: jax.make_array_from_process_local_data(sharding, x, (size or len(x), *x.shape[1:]))
            for k, x in batch.items()
        }


def outline(model: Any, objective: Objective, data: Dataset) -> tuple[Any, PyTree]:
    """What a model gives for a batch of one, and its variables, `intermediates` among them: shapes and dtypes alone."""

    def call(batch: Batch) -> tuple[Any, PyTree]:
        rngs = {name: jax.random.key(0) for name in ("params", "dropout")}
        return model.init_with_output(rngs, **objective.inputs(batch), mutable=True)

    spec = {key: jax.ShapeDtypeStruct((1, *x.shape), x.dtype) for key, x in data.spec().items()}
    return jax.eval_shape(call, spec)


@dataclasses.dataclass(frozen=True)
class Context:
    """What an evaluator may use of a run.

    Attributes:
      name: the evaluator's own, in `Experiment.evals`.
      evaluator: the evaluator itself.
      model: the run's.
      objective: the run's.
      seed: the run's.
      train: the run's training data.
      source: the evaluator's own data, opened.
      batch_size: examples at a time, over all hosts.
      sharding: of a batch's arrays.
      folder: the workdir, for pictures and texts; None = there is none.
      programs: what `program` has jitted so far, for runs that are equal in model, objective, seed and training data.
    """

    name: str
    evaluator: "Evaluator"
    model: Any
    objective: Objective
    seed: int
    train: Dataset
    source: Source
    batch_size: int
    sharding: NamedSharding
    folder: Path | None = None
    programs: Programs = dataclasses.field(default_factory=dict)

    @property
    def whole(self) -> NamedSharding:
        """The sharding of an array that every device holds whole."""
        return NamedSharding(self.sharding.mesh, PartitionSpec())

    def program(self, function: Program, *more: Hashable) -> Program:
        """`function` of variables and a batch, jitted; what it gives is whole on every host.

        Evaluators of one class whose fields are all equal share one compilation.

        Args:
          more: what the function depends on besides the evaluator's fields and the context.
        """
        key = tree.identity(self.evaluator), function.__code__, more
        if key not in self.programs:
            self.programs[key] = backend.jit(function, out_shardings=self.whole)
        return self.programs[key]

    def over(
        self,
        program: Program,
        variables: PyTree,
        source: Source,
        max_batches: int | None = None,
        needs: Sequence[str] = (),
    ) -> Iterator[PyTree]:
        """program(variables, batch) of each batch of a source as numpy arrays, the same on every host.

        A result is read while the devices work on the next ones, so they never wait for the host, and the host never
        runs far ahead of them.

        Args:
          needs: keys of a batch that the program holds against what the model says, such as `label`: an id that the
            model doesn't know is a UserError. (One in `tokens` always is.)
        """
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
        """numpy arrays that every host has, whole on every device."""
        with jax.transfer_guard_host_to_device("allow"):
            return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self.whole, x, x.shape), arrays)

    def write(self, kind: str, step: int, ending: str, content: bytes) -> None:
        """Writes the file KIND/NAME/STEP.ENDING of the workdir, if there is one; host 0 does.

        Where a link leads out of the workdir, a warning says so and nothing is written.
        """
        if self.folder is None or not distributed.is_primary():
            return
        path = self.folder / kind / self.name / f"{step}.{ending}"
        with dispensable(path):
            if leaves(path.parent, self.folder):
                raise OSError("a link leads out of the workdir")
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(path, content)


@dataclasses.dataclass
class Evaluator:
    """What is measured on which examples, and when. A new one is one new file with a `start`.

    Attributes:
      data: the examples; every one counts once.
      every_steps: training steps between two evaluations; the last step is always evaluated.
      batch_size: examples at a time; None takes the run's.
      max_batches: stop after this many batches; None reads all.
    """

    data: Dataset
    every_steps: int = config_field(100, at_least=1)
    batch_size: int | None = config_field(None, at_least=1)
    max_batches: int | None = config_field(None, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        """Keys that a batch of `data` must have, "a | b" for one of two. `objective` is the run's."""
        return objective.required_keys

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        """Looks, before anything compiles, whether this evaluator fits the run's model, objective and training data.

        Raises:
          UserError: it doesn't; the evaluator itself is called `eval` in the field's name.
        """

    def start(self, context: Context) -> Evaluate:
        """Makes what is needed once a run: a function of (the model's variables, updates done) that gives the scores.

        It runs on every host, with equal results; files are host 0's to write.
        """
        raise NotImplementedError
