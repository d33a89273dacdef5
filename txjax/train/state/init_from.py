"""The parameters of other runs: compared before anything compiles, loaded straight to where they will live."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import jax
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec

from txjax.checkpoint import split
from txjax.checkpoint.finite import check_finite
from txjax.checkpoint.origins import Origin, unchanged_origins
from txjax.checkpoint.run_steps import RunStep, open_step
from txjax.experiment import Experiment
from txjax.io.disk import dispensable
from txjax.io.files import replace_text
from txjax.io.kept_files import inherit_files
from txjax.log.terminal_table import table
from txjax.sharding import is_axes
from txjax.train.state.frozen_parts import check_given, check_stored
from txjax.train.state.init_names import check_names
from txjax.train.state.init_tokenizers import check_tokenizers
from txjax.train.state.state import Layout
from txjax.transfer.match import ACTIONS, Row, Source, match, stored_variables
from txjax.transfer.origin import From, origins
from txjax.types import PyTree, TrainState, flat_paths

log = logging.getLogger("txjax")


@dataclasses.dataclass(frozen=True)
class SourceStep:
    """A step of a run to start from.

    Attributes:
      field: the dotted path of `origin` in the config.
      at: the step.
    """

    field: str
    origin: From
    at: RunStep

    @property
    def title(self) -> str:
        """What is taken from where: `left/ from encoder/ of runs/a at step 3`."""
        here, there = (f"{prefix}/" if prefix else "" for prefix in (self.origin.here, self.origin.there))
        return " ".join(word for word in (here, "from", there, "of" * bool(there), self.at.name) if word)

    @property
    def facts(self) -> dict[str, Any]:
        """What `transfer.json` and the manifest say of it."""
        prefixes = {"here": self.origin.here, "there": self.origin.there}
        return self.at.facts | prefixes


@dataclasses.dataclass(frozen=True)
class InitSource:
    """The runs to start from.

    Attributes:
      steps: one of each origin.
      rows: what becomes of every array of this run and of those.
    """

    steps: list[SourceStep]
    rows: list[Row]

    @property
    def facts(self) -> list[dict[str, Any]]:
        """The run, step, digest and prefixes of every origin."""
        return [step.facts for step in self.steps]

    def begin(self, experiment: Experiment, layout: Layout) -> TrainState:
        """The state before the first update: parameters of the other runs, a fresh draw of the others."""
        state = layout.create(experiment.seed)
        weights, layouts = (flat_paths(_weights(x)) for x in (state, layout.abstract))
        taken = [(row.here.at.removeprefix("weights/"), row.there, row) for row in self.rows if row.here and row.there]
        for at, _, _ in taken:
            weights[at].delete()  # its memory is for the one that comes
        for i, origin in enumerate(source.at for source in self.steps):
            ours = [(at, there, row) for at, there, row in taken if row.source == i]
            wanted = {there.at: _wanted(row, layouts[at].sharding) for at, there, row in ours}
            loaded = flat_paths(origin.store.load_some(origin.step, traverse_util.unflatten_dict(wanted, sep="/")))
            check_finite(origin.workdir, origin.step, loaded)
            for at, there, row in ours:
                weights[at] = loaded.pop(there.at)
                if row.resizes:
                    weights[at] = jax.jit(row.resize, out_shardings=layouts[at].sharding)(weights[at])
        trees = jax.tree.unflatten(jax.tree.structure(_weights(state)), weights.values())
        average = experiment.ema.begin(trees["params"]) if experiment.ema else {}
        return dataclasses.replace(state, **trees, ema=average)

    def frozen(self) -> list[Origin]:
        """The origins of the frozen parameters that are the same bits there."""
        unchanged = []
        for i, step in enumerate(self.steps):
            arrays = {
                row.here.at: row.there.at
                for row in self.rows
                if row.here and row.there and row.source == i and row.action == "loaded"
                if row.here.at.startswith("weights/frozen/")
            }
            unchanged += unchanged_origins(step.at.workdir, step.at.store.record(step.at.step), step.at.digest, arrays)
        return unchanged

    def show(self, workdir: Path) -> None:
        """Prints what is loaded, resized, new and dropped, and writes it to `transfer.json`, with the kept files."""
        inherit_files(workdir, [step.at.workdir for step in self.steps])
        numbers = {action: sum(row.size for row in self.rows if row.action == action) for action in ACTIONS}
        for i, step in enumerate(self.steps):
            rows = [row for row in self.rows if row.source == i]
            averaged = any(row.there and row.there.at.startswith("weights/ema/") for row in rows)
            _table(step.title + ", averaged weights" * averaged, rows)
        if numbers["new"]:
            _table("initialised", [row for row in self.rows if row.action == "new"])
        names = " and ".join(dict.fromkeys(step.at.name for step in self.steps))
        summary = ", ".join(f"{number:,} {action}" for action, number in numbers.items() if number)
        log.info("numbers from %s: %s", names, summary)
        arrays = [
            {"path": row.path, "action": row.action, "origin": row.source}
            | {side: array._asdict() for side, array in (("here", row.here), ("there", row.there)) if array}
            for row in self.rows
        ]
        facts = {"origins": self.facts, "numbers": numbers, "arrays": arrays}
        path = workdir / "transfer.json"
        with dispensable(path):
            replace_text(path, json.dumps(facts, indent=1) + "\n")


def _table(title: str, rows: list[Row]) -> None:
    def done(row: Row) -> str:
        return f"resized from {list(row.there.shape)}" if row.there and row.resizes else row.action

    ordered = [row for action in ACTIONS for row in rows if row.action == action]
    table(title, ["array", "shape", ""], [[row.path, str(list(row.array.shape)), done(row)] for row in ordered])


def _weights(state: TrainState) -> dict[str, PyTree]:
    """What a run may take over: all of the weights but the averages, which begin as copies of them."""
    return split(dataclasses.replace(state, ema={}))["weights"]


def _wanted(row: Row, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    """What to load for a row. An axis to resize is loaded whole: its size there may not be divisible."""
    assert row.there is not None
    spec = [*sharding.spec, *[None] * (len(row.there.shape) - len(sharding.spec))]
    for number, _ in row.resizes:
        spec[number] = None
    here = NamedSharding(sharding.mesh, PartitionSpec(*spec)) if row.resizes else sharding
    return jax.ShapeDtypeStruct(row.there.shape, row.there.dtype, sharding=here)


def find_init_source(experiment: Experiment, layout: Layout) -> InitSource | None:
    """What `init_from` names, compared with this run; reads no array. None where it names nothing.

    Raises:
      UserError: no such run or step, damaged files, another tokenizer, a teacher that none gives, or whatever
        `transfer.match` finds.
    """
    steps = [
        SourceStep(field, origin, open_step(field, origin.run or "")) for field, origin in origins(experiment.init_from)
    ]
    if not steps:
        check_given(experiment, [])
        return None
    here = {f"weights/{path}": (x.shape, str(x.dtype)) for path, x in flat_paths(_weights(layout.abstract)).items()}
    sources = [
        Source(step.field, step.origin, step.at.name, stored_variables(step.at.store.record(step.at.step)["arrays"]))
        for step in steps
    ]
    for source in sources:
        ours = [x for x in map(source.origin.path_there, stored_variables(here)["params"]) if x]
        check_stored(ours, source.name, source.arrays["params"])
    axes = flat_paths(layout.axes, is_leaf=is_axes)
    rows = match(sources, stored_variables(here), axes)
    runs = [(step.at.name, step.at.workdir) for step in steps]
    check_tokenizers(rows, axes, experiment.data, runs)
    check_names(rows, axes, experiment.data, runs)
    check_given(experiment, rows)
    return InitSource(steps, rows)
