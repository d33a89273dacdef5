"""Several runs in one program: experiments that differ only in numbers, each in its own workdir.

The step is vmapped over the members. The mesh's `data` axis splits them over the devices instead of their batches; all
else is laid out as for a run alone. A member's rows and checkpoints are those of its run alone, to float32 rounding,
and either can go on where the other stopped.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from txjax import backend, sharding
from txjax.backend import prepare
from txjax.checkpoint import Store, join, split
from txjax.data import Limits, Source, train_batches
from txjax.data.buckets import Ragged
from txjax.data.cache import cache_dir
from txjax.experiment import Experiment, resolved
from txjax.processes import several
from txjax.train.alone import HostBatch
from txjax.train.books import NotFinite
from txjax.train.check import check, check_layout
from txjax.train.early import EXIT_CODE
from txjax.train.init_from import Origin
from txjax.train.loop import run
from txjax.train.run_eval import place
from txjax.train.state import Layout, lay_out
from txjax.train.step import make_step
from txjax.train.traced import Values, check_together, member, traced_values
from txjax.train.workdir import named
from txjax.types import Batch, Failure, PyTree, TrainState, UserError

log = logging.getLogger("txjax")
AXIS = "members"


class Ended(NamedTuple):
    """How a population ended.

    Attributes:
      code: the exit code: 0 done, 75 preempted and saved, 1 where all members failed.
      failed: why members could not go on, by their numbers; their workdirs are as their runs alone would leave them.
    """

    code: int
    failed: dict[int, NotFinite]


def train_together(
    experiments: Sequence[Experiment],
    workdirs: Sequence[Path],
    allow_config_change: bool = False,
    until: int | None = None,
) -> Ended:
    """Trains experiments in one program, from the newest step that all their workdirs have.

    Where there is none, since a member had failed before the others were stopped, those behind come first.

    Args:
      experiments: they differ in numbers that a trace may take as arguments (seed, rates, decays, betas, ...), in the
        schedule, and in data of one shape.
      workdirs: one each. Each looks like the one of `train`; `perf/` and `goodput` tell of the step of all.
      allow_config_change, until: see `train`.

    Raises:
      UserError: a mistake that can be mended, experiments that are no one program among them (`traced.populations`
        sorts them).
    """
    assert len(experiments) == len(workdirs) > 0
    prepare(cache_dir() / "programs")
    experiments = [resolved(experiment) for experiment in experiments]
    if several():
        raise UserError("--process_count", "one process where points train together")
    for experiment in experiments[1:]:
        check_layout(experiment, jax.device_count())
        experiment.optimizer.lr(experiment.num_steps)
        if experiment.data != experiments[0].data:
            check(experiment)
    check_together(experiments)
    failed: dict[int, NotFinite] = {}
    while True:
        going = [i for i in range(len(experiments)) if i not in failed]
        if not going:
            return Ended(Failure.code, failed)
        some, end = _behind([Store(named(workdirs[i])) for i in going], until)
        now = [going[i] for i in some]
        mine = [experiments[i] for i in now], [workdirs[i] for i in now]
        code, failures = run(*mine, Population, allow_config_change, end)
        failed |= {now[i]: failure for i, failure in failures.items()}
        if code == EXIT_CODE or now == going:
            return Ended(code, failed)


class Population:
    """The state of several runs, stacked: the machine of `train.loop`."""

    def __init__(self, experiments: Sequence[Experiment], layout: Layout, sources: Sequence[Source]):
        self.experiments, self.layout, self.first = experiments, layout, experiments[0]
        mesh, built = self.first.mesh, layout.batch.mesh
        assert isinstance(built, jax.sharding.Mesh)
        if any(isinstance(source, Ragged) for source in sources):
            raise UserError("config.data", "batches of one length where points train together", "buckets")
        self.sources = {id(source): source for source in sources}
        orders = [(id(source), experiment.seed) for source, experiment in zip(sources, experiments, strict=True)]
        self.orders = list(dict.fromkeys(orders))  # the different orders of examples
        self.taken = [self.orders.index(each) for each in orders]
        self.shared = len(self.orders) == 1
        # Copies of the last one, so that no device lacks a member.
        copies = -len(experiments) % mesh.num_shards(AXIS, built.size)
        self.padded = [*range(len(experiments)), *[len(experiments) - 1] * copies]

        own = dataclasses.replace(self.first, mesh=mesh.without(AXIS))
        inner = lay_out(own, built)
        whole = jax.tree.map(lambda x: x.sharding, inner.abstract)
        self.places = sharding.stacked(AXIS, whole, mesh)
        self.batch = inner.batch if self.shared else sharding.stacked(AXIS, inner.batch, mesh)
        values = traced_values([experiments[i] for i in self.padded])
        rows = jax.tree.map(lambda _: sharding.stacked(AXIS, inner.abstract.step.sharding, mesh), values)
        self.values = jax.device_put(values, rows)

        def step(values: Values, state: TrainState, batch: Batch) -> Any:
            mine = member(own, values)
            return make_step(mine, lay_out(mine, built))(state, batch)

        self.step_fn = backend.jit(
            sharding.each(step, AXIS, (0, 0, None if self.shared else 0)),
            in_shardings=(rows, self.places, self.batch),
            out_shardings=(self.places, None),
            donate_argnums=1,
        )
        placed = jax.tree.map(lambda x: x.sharding, layout.abstract)
        self.pick = jax.jit(lambda state, i: jax.tree.map(lambda x: x[i], state), out_shardings=placed)
        with jax.transfer_guard("allow"):
            self.numbers = [jax.device_put(np.int32(i), inner.abstract.step.sharding) for i in range(len(experiments))]

    def restore(self, stores: Sequence[Store]) -> dict[str, Any] | None:
        step = _newest_of_all(stores)
        if step is None:
            return None
        for store in stores:
            store.go_back(step)
        self._stack([join(store.load(step, split(self.layout.abstract))) for store in stores])
        return stores[0].record(step)

    def create(self, origin: Origin | None) -> None:
        if origin is not None:
            self._stack([origin.begin(experiment, self.layout) for experiment in self.experiments])
            return
        built = self.layout.batch.mesh
        assert isinstance(built, jax.sharding.Mesh)

        def draw(values: Values) -> TrainState:
            mine = member(self.first, values)
            return lay_out(mine, built).init(jax.random.key(mine.seed))

        numbers = self.layout.parameters * len(self.padded)
        self.state = backend.jit_once(sharding.each(draw, AXIS), numbers, out_shardings=self.places)(self.values)

    def _stack(self, states: list[TrainState]) -> None:
        def stack(states: list[TrainState]) -> PyTree:
            return jax.tree.map(lambda *x: jax.numpy.stack([x[i] for i in self.padded]), *states)

        self.state = jax.jit(stack, out_shardings=self.places)(states)

    def batches(self, start: int) -> Generator[HostBatch]:
        size = self.first.batch_size
        limits = Limits.of("config.data", self.first.model, self.first.objective.required_keys)
        with contextlib.ExitStack() as stack:
            streams = []
            for number, seed in self.orders:
                opened = self.sources[number]
                stream = train_batches(opened, batch_size=size, seed=seed, start_step=start, limits=limits)
                streams.append(stack.enter_context(contextlib.closing(stream)))
            while True:
                batches = [next(stream) for stream in streams]
                if self.shared:
                    yield batches[0]
                else:
                    taken = [batches[self.taken[i]] for i in self.padded]
                    yield {key: np.stack([batch[key] for batch in taken]) for key in taken[0]}

    def batch_of(self, member: int, batch: HostBatch) -> HostBatch:
        return batch if self.shared else {key: x[member] for key, x in batch.items()}

    def start(self, batch: HostBatch) -> tuple[dict[str, jax.Array], np.ndarray]:
        self.state, metrics = self.step_fn(self.values, self.state, place(batch, self.batch))
        return metrics, batch["id"]

    def state_of(self, member: int) -> TrainState:
        return self.pick(self.state, self.numbers[member])


def _behind(stores: Sequence[Store], until: int | None) -> tuple[list[int], int | None]:
    """Who trains first, and until which step: all, unless no step is in all stores (a member had failed)."""
    found = [set(store.steps()) for store in stores]
    newest = [max(steps, default=0) for steps in found]
    lowest = min(newest)
    if set.intersection(*found) or lowest == max(newest):
        return list(range(len(stores))), until
    end = min(step for step in newest if step > lowest)
    return [i for i, step in enumerate(newest) if step == lowest], min(end, until or end)


def _newest_of_all(stores: Sequence[Store]) -> int | None:
    """The newest step whose every bit is right in all stores, None where none has any.

    Raises:
      UserError: there are steps, and none that all have.
    """
    for store in stores:
        store.clean()
    found = [store.steps() for store in stores]
    for step in sorted(set.intersection(*map(set, found)), reverse=True):
        if all([store.sound(step) for store in stores]):
            return step
    if any(found):
        told = "; ".join(f"{store.folder.parent.name}: {steps}" for store, steps in zip(stores, found, strict=True))
        raise UserError("--workdir", "a step that all members have", told, hint="start again: those behind go first")
    return None
