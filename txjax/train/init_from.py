"""The parameters of another run: compared before anything compiles, loaded straight to where they will live."""

import dataclasses
import json
import logging
from functools import partial
from pathlib import Path

import jax
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec

from txjax.checkpoint import Store, is_step, split
from txjax.distributed import on_primary
from txjax.experiment import Experiment
from txjax.io.disk import dispensable
from txjax.io.files import replace_text
from txjax.log.terminal_table import table
from txjax.sharding import is_axes
from txjax.train.state import Layout
from txjax.train.workdir import read_checkpoints
from txjax.transfer import ACTIONS, FIELD, Row, plan, stored_variables
from txjax.types import PyTree, TrainState, UserError, flat_paths

log = logging.getLogger("txjax")


@dataclasses.dataclass(frozen=True)
class InitSource:
    """A run to start from.

    Attributes:
      step: the one that is taken.
      rows: what becomes of every array of this run and of that one.
    """

    store: Store
    step: int
    rows: list[Row]

    @property
    def name(self) -> str:
        return f"{self.store.folder.parent} at step {self.step}"

    def begin(self, experiment: Experiment, layout: Layout) -> TrainState:
        """The state before the first update: parameters of the other run, a fresh draw of the others."""
        state, resample = layout.create(experiment.seed), experiment.transfer.resample
        drawn, layouts = (flat_paths(_weights(x)) for x in (state, layout.abstract))
        taken = [(row.here.at.removeprefix("weights/"), row.there, row) for row in self.rows if row.here and row.there]
        for at, _, _ in taken:
            drawn[at].delete()  # its memory is for the one that comes
        wanted = {there.at: _wanted(row, layouts[at].sharding) for at, there, row in taken}
        found = flat_paths(self.store.load_some(self.step, traverse_util.unflatten_dict(wanted, sep="/")))
        for at, there, row in taken:
            drawn[at] = found[there.at]
            if row.action == "resampled":
                assert resample is not None
                fit = partial(resample, rows=layouts[at].shape[0])
                drawn[at] = jax.jit(fit, out_shardings=layouts[at].sharding)(drawn[at])
        weights = jax.tree.unflatten(jax.tree.structure(_weights(state)), drawn.values())
        average = experiment.ema.begin(weights["params"]) if experiment.ema else {}
        return dataclasses.replace(state, **weights, ema=average)

    def show(self, workdir: Path) -> None:
        """Prints what is loaded, resampled, new and dropped, and writes it to `transfer.json`."""
        numbers = {action: sum(row.size for row in self.rows if row.action == action) for action in ACTIONS}
        lines = [
            [row.path, str(list(row.array.shape)), _described(row)]
            for action in ACTIONS
            for row in self.rows
            if row.action == action
        ]
        averaged = any(row.there and row.there.at.startswith("weights/ema/") for row in self.rows)
        table(f"from {self.name}" + ", averaged weights" * averaged, ["array", "shape", ""], lines)
        summary = ", ".join(f"{number:,} {action}" for action, number in numbers.items() if number)
        log.info("numbers from %s: %s", self.name, summary)
        rows = [
            {"path": row.path, "action": row.action}
            | {side: array._asdict() for side, array in (("here", row.here), ("there", row.there)) if array}
            for row in self.rows
        ]
        facts = {"from": str(self.store.folder.parent), "step": self.step, "numbers": numbers, "arrays": rows}
        path = workdir / "transfer.json"
        with dispensable(path):
            replace_text(path, json.dumps(facts, indent=1) + "\n")


def _weights(state: TrainState) -> dict[str, PyTree]:
    """What a run may take over: all of the weights but the averages, which begin as copies of them."""
    return split(dataclasses.replace(state, ema={}))["weights"]


def _wanted(row: Row, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    """What to load for a row. A table to resample is loaded whole: it is small, and may not be divisible as it is."""
    assert row.there is not None
    here = sharding if row.action == "loaded" else NamedSharding(sharding.mesh, PartitionSpec())
    return jax.ShapeDtypeStruct(row.there.shape, row.there.dtype, sharding=here)


def _described(row: Row) -> str:
    """The action of a row, and where it comes from if that is not the same path and shape."""
    if row.here is None or row.there is None:
        return row.action
    path = row.there.at.removeprefix("weights/").partition("/")[2]
    other = [path] * (path != row.path) + [str(list(row.there.shape))] * (row.action == "resampled")
    return " ".join([row.action, "from", *other] if other else [row.action])


def find_init_source(experiment: Experiment, layout: Layout) -> InitSource | None:
    """What `init_from` names, compared with this run; reads no array. None where it names nothing.

    Raises:
      UserError: no such run or step, damaged files, or whatever `transfer.plan` finds.
    """
    if experiment.init_from is None:
        return None
    workdir, which = _parse(experiment.init_from)
    try:
        store = Store(workdir, read_checkpoints(workdir))
        step = on_primary("the step to start from", lambda: store.choose(which))
    except UserError as error:
        flag = error.field if error.field.startswith("--") else ""  # of the commands that read a workdir
        raise error.inside(FIELD, flag) from None
    here = {f"weights/{path}": (x.shape, str(x.dtype)) for path, x in flat_paths(_weights(layout.abstract)).items()}
    axes = flat_paths(layout.axes, is_leaf=is_axes)
    tables = [path for path, names in axes.items() if names[:1] == ("positions",)]
    there = store.record(step)["arrays"]
    source = f"{workdir} at step {step}"
    rows = plan(experiment.transfer, stored_variables(here), stored_variables(there), tables, source)
    return InitSource(store, step, rows)


def _parse(text: str) -> tuple[Path, str]:
    """WORKDIR, WORKDIR@last, WORKDIR@best or WORKDIR@STEP; a folder's own name may have an @ in it."""
    workdir, at, which = text.rpartition("@")
    if not at or Path(text).is_dir():
        return Path(text), "last"
    if which not in ("last", "best") and not is_step(which):
        raise UserError(FIELD, "WORKDIR, WORKDIR@last, WORKDIR@best or WORKDIR@STEP", text)
    return Path(workdir), which
