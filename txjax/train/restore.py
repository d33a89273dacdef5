"""From a workdir back to a model that runs, by its config.json and a checkpoint alone."""

from pathlib import Path

import jax

from txjax.checkpoint import Store, split
from txjax.experiment import Experiment
from txjax.train.state import lay_out, variables
from txjax.train.workdir import read_config
from txjax.types import PyTree, TrainState


def load_weights(workdir: Path, which: str, abstract: TrainState) -> tuple[dict[str, PyTree], int]:
    """`params`, `frozen` and `model_state` of a run's step (`last`, `best` or a number), laid out as `abstract` says.

    Raises:
      UserError: no such run or step, or other parameters than this model's.
    """
    experiment = read_config(workdir)
    store = Store(workdir, experiment.checkpoint)
    step = store.choose(which)
    return store.load(step, {"weights": split(abstract)["weights"]})["weights"], step


def load_variables(
    workdir: Path, which: str, experiment: Experiment, built: jax.sharding.Mesh
) -> tuple[dict[str, PyTree], int]:
    """The model's variables at a step of a run, and the step. Call it inside `sharding.use(experiment.mesh)`."""
    abstract = lay_out(experiment, built).abstract
    weights, step = load_weights(workdir, which, abstract)
    return variables(TrainState(**weights, step=None, opt_state=None, skipped=None)), step  # type: ignore[arg-type]
