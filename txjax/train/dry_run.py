"""A run without its first step: everything that could refuse it is looked at, and its workdir stays as it is."""

from pathlib import Path

from txjax import sharding
from txjax.experiment import Experiment
from txjax.train.prepare import prepare
from txjax.train.run.changed_files import name_changed_files
from txjax.train.run.workdir import valid_path
from txjax.train.session import compare_workdir
from txjax.train.trainer import Trainer


def dry_run(experiment: Experiment, workdir: str | Path, allow_config_change: bool = False) -> str:
    """Looks at a run as `train` would before it begins, on this machine's devices and data.

    Returns:
      One line of what it found.

    Raises:
      UserError: what `train` would raise.
    """
    path = valid_path(workdir)
    with name_changed_files(path):
        run = prepare(experiment, path, allow_config_change)
        with sharding.use_mesh(run.experiment.mesh):
            Trainer(run)
        compare_workdir(run)
    examples = ", ".join(f"{name} {len(source):,}" for name, source in {"train": run.source, **run.evals}.items())
    return f"config OK: {run.layout.parameters:,} parameters; examples: {examples}"
