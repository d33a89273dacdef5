"""From a workdir back to a model that runs, by its config.json and a checkpoint alone."""

from pathlib import Path

from txjax.checkpoint import Store, split
from txjax.distributed import on_primary
from txjax.train.run.workdir import read_checkpoints
from txjax.train.state.state import Layout, model_variables
from txjax.types import PyTree, TrainState


def load_variables(workdir: Path, which: str, layout: Layout) -> tuple[dict[str, PyTree], int]:
    """The model's variables at a step of a run (`last`, `best` or a number), averaged where it keeps averages.

    Call it inside `sharding.use_mesh(experiment.mesh)`.

    Returns:
      The variables, and the step.

    Raises:
      UserError: no such run or step, or other parameters than this model's.
    """
    store = Store(workdir, read_checkpoints(workdir))
    step = on_primary("the step to load", lambda: store.choose(which))
    weights = store.load(step, {"weights": split(layout.abstract)["weights"]})["weights"]
    return model_variables(TrainState(**weights, step=None, opt_state=None, skipped=None)), step  # type: ignore[arg-type]
