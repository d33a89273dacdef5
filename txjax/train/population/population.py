"""Several runs in one program: experiments that differ only in numbers, each in its own workdir.

The step is vmapped over the members; frozen parameters that are equal in all of them are there once. The mesh's `data`
axis splits the members over the devices instead of their batches; all else is sharded as for a single run. A member's
rows and checkpoints equal its single run's, to float32 rounding, and either can resume from the other's.
"""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import jax
import numpy as np
from flax.core import meta

from txjax import backend, sharding
from txjax.checkpoint import Store, join, split
from txjax.data.loading.buckets import TrimmableSource
from txjax.data.loading.epochs import in_steps
from txjax.distributed import is_multiprocess
from txjax.errors import RunError, UserError
from txjax.experiment import Experiment, with_default_eval_data
from txjax.train.batches import HostBatch, read_batches
from txjax.train.check import check_description, check_layout
from txjax.train.interval import Index, stacked
from txjax.train.population.members import members_behind, newest_of_all, prepare_members
from txjax.train.population.recorders import Recorders
from txjax.train.population.traced import Values, check_together, member, traced_values
from txjax.train.prepared_run import Run
from txjax.train.recorder import RunRecorder
from txjax.train.run.preemption import EXIT_CODE
from txjax.train.run.workdir import valid_path
from txjax.train.run_eval import evaluators, shard_batch
from txjax.train.state.state import build_layout, draw_variables, model_variables
from txjax.train.step import make_step
from txjax.train.trainer import Trainer
from txjax.types import Batch, PyTree, TrainState

log = logging.getLogger("txjax")
AXIS = "members"


class PopulationResult(NamedTuple):
    """How a population ended.

    Attributes:
      code: the exit code: 0 done, 75 preempted and saved, 1 where all members failed.
      failed: why members could not continue, by their numbers; their workdirs are as single runs would leave them.
    """

    code: int
    failed: dict[int, RunError]


def train_together(
    experiments: Sequence[Experiment],
    workdirs: Sequence[Path],
    allow_config_change: bool = False,
    until: int | None = None,
) -> PopulationResult:
    """Trains experiments in one program, from the newest step that all their workdirs have.

    Where there is none, since a member had failed before the others were stopped, those behind come first.

    Args:
      experiments: they differ in numbers that a trace may take as arguments (seed, rates, decays, betas, ...), in the
        schedule, and in data of one shape.
      workdirs: one each. Each looks like the one of `train`; `perf/` and `goodput` cover all members.
      allow_config_change, until: see `train`.

    Raises:
      UserError: see `train`; or experiments that need several programs (`traced.populations` groups them).
    """
    assert len(experiments) == len(workdirs) > 0
    backend.prepare()
    experiments = [in_steps(with_default_eval_data(experiment)) for experiment in experiments]
    if is_multiprocess():
        raise UserError("--process_count", "one process where points train together")
    for experiment in experiments[1:]:
        check_layout(experiment, jax.device_count())
        experiment.optimizer.lr(experiment.num_steps)
        if experiment.data != experiments[0].data:
            check_description(experiment)
    check_together(experiments)
    failed: dict[int, RunError] = {}
    while True:
        going = [i for i in range(len(experiments)) if i not in failed]
        if not going:
            return PopulationResult(RunError.code, failed)
        paths = {i: valid_path(workdirs[i]).resolve() for i in going}
        behind, end = members_behind([Store(path) for path in paths.values()], until)
        now = [going[i] for i in behind]
        runs = prepare_members([experiments[i] for i in now], [paths[i] for i in now], allow_config_change)
        with sharding.use_mesh(runs[0].experiment.mesh), Population(runs) as trainer:
            code = trainer.train(end)
        failed |= {now[i]: failure for i, failure in trainer.recorder.failures.items()}
        if code == EXIT_CODE or now == going:
            return PopulationResult(code, failed)


class Population(Trainer):
    """Trains several runs, their states stacked along a first dimension."""

    recorder: Recorders  # type: ignore[assignment]

    def __init__(self, runs: Sequence[Run]):
        self.run = runs[0]
        self.runs = list(runs)
        self.experiment = self.run.experiment
        self.layout = self.run.layout
        self.experiments = [run.experiment for run in runs]
        mesh = self.experiment.mesh
        assert isinstance(self.layout.batch.mesh, jax.sharding.Mesh)
        self.built = self.layout.batch.mesh
        if any(isinstance(run.source, TrimmableSource) and not run.source.whole for run in runs):
            raise UserError("config.data", "batches of one length where points train together", "buckets")
        orders = [(id(run.source), run.experiment.seed) for run in runs]
        self.orders = dict(zip(orders, runs, strict=True))  # a run of each order of examples
        self.order_of = [list(self.orders).index(order) for order in orders]
        self.shared = len(self.orders) == 1
        # Copies of the last one, so that no device lacks a member.
        copies = -len(runs) % mesh.num_shards(AXIS, self.built.size)
        self.padded = [*range(len(runs)), *[len(runs) - 1] * copies]
        self.batch_rows = self.rows_of(self.experiment)

        self.alone = dataclasses.replace(self.experiment, mesh=mesh.without(AXIS))  # as each member computes
        inner = build_layout(self.alone, self.built, self.layout.trace)
        self.whole = jax.tree.map(lambda x: x.sharding, inner.abstract)
        self.batch_sharding = inner.batch if self.shared else sharding.stack_shardings(AXIS, inner.batch, mesh)
        values = traced_values([self.experiments[i] for i in self.padded])
        self.rows = jax.tree.map(lambda _: sharding.stack_shardings(AXIS, inner.abstract.step.sharding, mesh), values)
        self.values = jax.device_put(values, self.rows)
        with jax.transfer_guard("allow"):
            self.numbers = [jax.device_put(np.int32(i), inner.abstract.step.sharding) for i in range(len(runs))]
        folders = [run.workdir for run in runs]
        evaluations = evaluators(self.experiments, self.layout.batch, self.run.evals, folders, self.run.programs)
        evaluations[0].trace(model_variables(self.layout.abstract))
        self.recorder = Recorders(runs, evaluations)

    def build(self, frozen: int | None) -> None:
        """Builds the step. `frozen`: the axis of the members in frozen parameters; None if these are there once."""
        every = sharding.stack_shardings(AXIS, self.whole, self.experiment.mesh)
        self.shardings = every if frozen == 0 else dataclasses.replace(every, frozen=self.whole.frozen)
        axes = TrainState(step=0, params=0, frozen=frozen, model_state=0, opt_state=0, skipped=0, ema=0)  # type: ignore[arg-type]

        def step(values: Values, state: TrainState, batch: Batch) -> Any:
            mine = member(self.alone, values)
            return make_step(mine, build_layout(mine, self.built, self.layout.trace))(state, batch)

        def pick(state: TrainState, i: jax.Array) -> TrainState:
            stacked = state if frozen == 0 else dataclasses.replace(state, frozen={})
            one = jax.tree.map(lambda x: x[i], stacked)
            return one if frozen == 0 else dataclasses.replace(one, frozen=state.frozen)

        all_steps = backend.jit(
            sharding.vmap_shards(step, AXIS, (0, axes, None if self.shared else 0), (axes, 0)),
            in_shardings=(self.rows, self.shardings, self.batch_sharding),
            out_shardings=(self.shardings, None),
            donate_argnums=1,
        )
        self.train_step = functools.partial(all_steps, self.values)
        alone = jax.tree.map(lambda x: x.sharding, self.layout.abstract)
        self.pick = jax.jit(pick, out_shardings=alone)

    def state_of(self, member: int) -> TrainState:
        """The state of one run, where that run alone has it."""
        return self.pick(self.state, self.numbers[member])

    def restore(self) -> dict[str, Any] | None:
        stores = [recorder.store for recorder in self.recorder.all]
        step = newest_of_all(stores)
        if step is None:
            return None
        self._stack(join(store.load(step, split(self.layout.abstract))) for store in stores)
        for store in stores:
            store.go_back(step)
        records = [store.record(step) for store in stores]
        return records[0] | {"sums": stacked([records[i].get("sums", {}) for i in self.padded])}

    def create(self) -> None:
        if origin := self.run.init_source:
            self._stack(origin.begin(experiment, self.layout) for experiment in self.experiments)
            return
        self.build(frozen=0)

        def draw(values: Values) -> TrainState:
            mine = member(self.experiment, values)
            variables = meta.unbox(draw_variables(mine, jax.random.key(mine.seed)))
            return build_layout(mine, self.built, self.layout.trace).begin(variables)

        numbers = self.layout.parameters * len(self.padded)
        self.state = backend.jit_once(sharding.vmap_shards(draw, AXIS), numbers, out_shardings=self.shardings)(
            self.values
        )

    def _stack(self, states: Iterable[TrainState]) -> None:
        """Joins the states of all members, and builds the step for what they share."""
        bases: list[PyTree] = []
        others: list[TrainState] = []
        for state in states:
            same = bool(bases) and _equal(bases[0], state.frozen)
            bases.append(bases[0] if same else state.frozen)
            others.append(dataclasses.replace(state, frozen={}))
        once = all(base is bases[0] for base in bases)
        self.build(frozen=None if once else 0)

        def stack(trees: list[PyTree]) -> PyTree:
            return jax.tree.map(lambda *x: jax.numpy.stack([x[i] for i in self.padded]), *trees)

        where = self.shardings.frozen
        frozen = jax.device_put(bases[0], where) if once else jax.jit(stack, out_shardings=where)(bases)
        rest = jax.jit(stack, out_shardings=dataclasses.replace(self.shardings, frozen={}))(others)
        self.state = dataclasses.replace(rest, frozen=frozen)

    def batches(self) -> Generator[HostBatch]:
        with contextlib.ExitStack() as stack:
            streams = [read_batches(run, self.start, self.rows_of) for run in self.orders.values()]
            for stream in streams:
                stack.enter_context(contextlib.closing(stream))
            while True:
                batches = [next(stream) for stream in streams]
                if self.shared:
                    yield batches[0]
                else:
                    stacked = [batches[self.order_of[i]] for i in self.padded]
                    yield {key: np.stack([batch[key] for batch in stacked]) for key in stacked[0]}

    def rows_of(self, experiment: Experiment) -> Sequence[int]:
        return range(experiment.batch_size)

    def enter_phase(self, step: int) -> None:
        pass

    def shard_batch(self, batch: HostBatch) -> Batch:
        return shard_batch(batch, self.batch_sharding)

    def batch_of(self, batch: HostBatch, run: Index) -> HostBatch:
        return batch if self.shared else {key: x[run] for key, x in batch.items()}

    def batch_ids(self, host_batch: HostBatch, batch: Batch) -> np.ndarray:
        return np.broadcast_to(host_batch["id"], (len(self.padded), self.experiment.batch_size))

    def evaluate(self, name: str, step: int) -> None:
        for i, recorder in self.recorder.going:
            if recorder.row:  # the others were evaluated before the run was stopped
                recorder.evaluate(name, model_variables(self.state_of(i)), step)

    def members(self) -> list[tuple[Index, RunRecorder]]:
        return [*self.recorder.going]

    def save(self, step: int, seconds: dict[str, float]) -> None:
        going = self.recorder.going
        barrier = Barrier(len(going))  # no run forgets an older step before all have this one
        for i, recorder in going:
            recorder.save(step, self.state_of(i), seconds, self.interval.recorded(i), barrier)


def _equal(a: PyTree, b: PyTree) -> bool:
    """Whether two trees have the same numbers."""
    pairs = zip(*map(jax.tree.leaves, (a, b)), strict=True)
    return all(bool(jax.device_get(jax.numpy.array_equal(x, y))) for x, y in pairs)
