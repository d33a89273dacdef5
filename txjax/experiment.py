"""The config of a run, as one tree of dataclasses. Building it allocates nothing and uses no device."""

import dataclasses
from typing import Any

from txjax.changes import Change
from txjax.checkpoint import Checkpoints
from txjax.checks import Checks
from txjax.component_text import ShownAsCode
from txjax.data import Dataset
from txjax.eval import EarlyStopping, Evaluator
from txjax.eval.resolution import resolve
from txjax.log import Curves, TensorBoard, Tracker
from txjax.objectives import Objective
from txjax.optim import EMA, AdamW, Optimizer, Spikes
from txjax.sharding import Mesh
from txjax.transfer import From
from txjax.types import config_field

__all__ = ["Experiment"]


@dataclasses.dataclass(repr=False)
class Experiment(ShownAsCode):
    """The config that `get_config` of a config file returns.

    Attributes:
      model: a Flax Linen module; its fields are its config.
      objective: the loss and metrics; it maps the batch's keys to the model's arguments.
      data: the training data.
      evals: evaluations during the run by name (`eval/NAME/loss`), by default of the training data.
      optimizer: with its schedule and its parameter groups.
      ema: the average of weights that evaluations and later runs read. If None, they read the weights themselves.
      mesh: how the run is sharded over devices.
      num_steps: updates of the whole run.
      num_epochs: how often the run uses every example; it sets `num_steps`, by the examples of `data` and `batch_size`.
        If None, `num_steps` is as given.
      batch_size: examples an update, over all devices and hosts.
      data_workers: processes that read the training data, the same batches; 0 = threads of the run's own process.
      microbatches: parts of a batch for gradient accumulation, to save memory; the update is the same.
      changes: other values of `batch_size`, `microbatches` and fields of `data`, each from a step on; the steps rise.
      stop: when the run ends before `num_steps`. If None, it doesn't.
      seed: of the initial parameters, the order of the data and all random numbers.
      log_every_steps: steps between rows of metrics.jsonl.
      layer_norms_every_steps: steps between rows with norms of parameters, gradient and update by layer; None: no row.
      on_nonfinite: at a non-finite loss or gradient, never applied: `raise` stops the run, `skip` counts and continues.
      spikes: which finite gradients are too large to be applied. If None, all are applied.
      max_skips: dropped updates in a row, by `skip`, by `spikes` or since no example has a weight, that stop the run.
      checkpoint: when to save and what to keep.
      step_timeout_seconds: a run without a step for so long stops, and reports what each of its threads was doing. Ten
        times as long for what takes longer: compiling, evaluating, saving.
      heartbeat_timeout_seconds: if a process sends no heartbeat for so long, the others stop.
      trackers: where the log is written, and drawn, besides metrics.jsonl.
      init_from: the runs whose parameters this one starts from: "WORKDIR" (its newest good step), "WORKDIR@best",
        "WORKDIR@1500", or `From` with paths and sizes. What none has is initialised.
      branch_from: the run that this one continues, "WORKDIR@1500" or as in `init_from`: it begins as a copy of that one
        up to this step, with its parameters, moments, place in the data and rows of the log. `optimizer`, `num_steps`
        and later `changes` may be others. If None, it begins at step 0.
    """

    model: Any
    objective: Objective
    data: Dataset
    evals: dict[str, Evaluator] = dataclasses.field(default_factory=dict)
    optimizer: Optimizer = dataclasses.field(default_factory=AdamW)
    ema: EMA | None = None
    mesh: Mesh = dataclasses.field(default_factory=Mesh)
    num_steps: int = config_field(1000, at_least=1)
    num_epochs: float | None = config_field(None, above=0)
    batch_size: int = config_field(32, at_least=1)
    data_workers: int = config_field(0, at_least=0)
    microbatches: int = config_field(1, at_least=1)
    changes: tuple[Change, ...] = ()
    stop: EarlyStopping | None = None
    seed: int = config_field(0, at_least=0, below=2**31, traced=True)
    log_every_steps: int = config_field(10, at_least=1)
    layer_norms_every_steps: int | None = config_field(None, at_least=1)
    on_nonfinite: str = config_field("raise", choices=("raise", "skip"))
    spikes: Spikes | None = None
    max_skips: int = config_field(10, at_least=1)
    checkpoint: Checkpoints = dataclasses.field(default_factory=Checkpoints)
    step_timeout_seconds: float = config_field(600.0, above=0)
    heartbeat_timeout_seconds: int = config_field(60, at_least=4, at_most=86_400)
    trackers: tuple[Tracker, ...] = dataclasses.field(default_factory=lambda: (TensorBoard(), Curves()))
    init_from: str | From | tuple[From, ...] | None = None
    branch_from: str | None = None


def with_default_eval_data(experiment: Experiment) -> Experiment:
    """The same experiment with the data sets of its evaluations filled in, as in `config.json`. Idempotent.

    Raises:
      UserError: an evaluation names no data set, and none can be derived from the training data.
    """
    checks = Checks()
    experiment = resolve(experiment, checks)
    checks.finish()
    return experiment
