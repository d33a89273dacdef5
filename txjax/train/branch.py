"""A branch of a run: a copy of it up to a step, whose later updates have another length, other rates or other data."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from txjax import tree
from txjax.checkpoint import Store, split
from txjax.checkpoint.arrays import check_arrays
from txjax.checkpoint.run_steps import RunStep, open_step
from txjax.errors import RunError, UserError
from txjax.experiment import Experiment
from txjax.io import digest
from txjax.io.kept_files import inherit_files
from txjax.log.metrics import copy_log
from txjax.train.run.earlier_run import keep_earlier_run
from txjax.train.run.workdir import CHANGED, HARMLESS, check_data, config_differences
from txjax.train.state.state import Layout

log = logging.getLogger("txjax")
FIELD = "config.branch_from"
# What a branch may have otherwise than the run that it comes from: all that only later updates depend on.
LATER = (*HARMLESS, "num_steps", "optimizer.", "changes", "branch_from", "spikes", "on_nonfinite", "max_skips")


class Branch(RunStep):
    """The step of another run that a run begins as a copy of."""

    def check(self, experiment: Experiment, layout: Layout) -> None:
        """Compares the run with the other one.

        Raises:
          UserError: they differ in what the updates up to the step depend on, or the run ends before.
        """
        path = self.workdir / "config.json"
        differences = config_differences(path, experiment, LATER)
        old = [change for change in tree.read_json(path).get("changes", ()) if change["step"] < self.step]
        new = [tree.to_json(change) for change in experiment.changes if change.step < self.step]
        if old != new:
            differences.append(f"changes before step {self.step}: {json.dumps(old)} -> {json.dumps(new)}")
        if differences:
            expected = f"a run like this one up to step {self.step}, but for the optimizer and its length"
            raise UserError(FIELD, expected, "; ".join(differences[:8]), hint="later changes are config.changes")
        if experiment.num_steps <= self.step:
            raise UserError("config.num_steps", f"more than the {self.step} of {FIELD}", experiment.num_steps)
        arrays = self.store.record(self.step)["arrays"]
        self.store.check_training(self.step, arrays)
        check_arrays(self.workdir, self.step, arrays, split(layout.abstract), all_of_them=True)

    def compare_data(self, data: Mapping[str, str]) -> None:
        """Compares the training data of the steps up to the branch.

        Args:
          data: fingerprints, as in the manifest.

        Raises:
          UserError: they have other fingerprints than in the other run.
        """
        begins = {name: int(name.removeprefix(CHANGED)) for name in data if name.startswith(CHANGED)}
        names = ["train", *(name for name, begin in begins.items() if begin < self.step)]
        check_data(self.workdir, {name: data[name] for name in names})

    def copy(self, workdir: Path) -> None:
        """Copies the step and the rows up to it into a workdir without checkpoints; the step counts once it is whole.

        Raises:
          RunError: the copy reads back otherwise.
        """
        keep_earlier_run(workdir)
        inherit_files(workdir, [self.workdir])
        rows = self.store.record(self.step).get("log", {}).get("rows", 0)
        copy_log(self.workdir, workdir, rows)
        folder = Store(workdir).path(self.step)
        if faults := digest.copy(self.store.path(self.step), folder):
            raise RunError(f"the copy of step {self.step} of {self.workdir} is not as it was: {'; '.join(faults)}")
        log.info("a branch of %s at step %d", self.workdir, self.step)


def find_branch(experiment: Experiment, layout: Layout) -> Branch | None:
    """The step that `branch_from` names, compared with this run; reads no array. None if it names nothing.

    Raises:
      UserError: no such run or step, damaged files, or what `Branch.check` finds.
    """
    if experiment.branch_from is None:
        return None
    branch = Branch(*open_step(FIELD, experiment.branch_from))
    branch.check(experiment, layout)
    return branch
