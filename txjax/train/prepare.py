"""Prepares a run: checks its config, traces its layout and its step, opens its data. Writes no workdir."""

import dataclasses
import time
from pathlib import Path

from txjax import backend, distributed, sharding
from txjax.checkpoint import Store
from txjax.data import Source
from txjax.data.loading.epochs import in_steps
from txjax.distributed import on_primary
from txjax.eval.evaluator import Programs
from txjax.experiment import Experiment, with_default_eval_data
from txjax.train.check import check_run, collect_errors
from txjax.train.open_data import open_all
from txjax.train.state.init_from import InitSource, find_init_source
from txjax.train.state.state import Layout
from txjax.train.step import Step, trace_step
from txjax.types import RunError
from txjax.user_code import user_code_errors

DATA_SECONDS = 3600.0  # that processes wait for one that still prepares data


@dataclasses.dataclass(frozen=True)
class Run:
    """An experiment that is ready to train in its workdir.

    Attributes:
      experiment: resolved.
      workdir: its absolute path; the folder need not exist.
      layout: of the state and of a batch.
      step: the train step of the experiment: traced, compiled at its first call.
      programs: of its evaluations, those that are traced.
      init_source: the run whose parameters it starts from. If None, it draws its own or resumes.
      source: the training data.
      evals: the data of the evaluations, by name.
      fingerprints: of all data, by name.
      allow_config_change: whether it may resume with a config that differs from the workdir's.
      begun: when its preparation began, by `time.monotonic()`.
      notes: how the backend is set up, for the log.
    """

    experiment: Experiment
    workdir: Path
    layout: Layout
    step: Step
    programs: Programs
    init_source: InitSource | None
    source: Source
    evals: dict[str, Source]
    fingerprints: dict[str, str]
    allow_config_change: bool
    begun: float
    notes: list[str]


def prepare(experiment: Experiment, workdir: Path, allow_config_change: bool = False) -> Run:
    """Checks an experiment and opens its data, which may prepare them in the cache.

    Raises:
      UserError: for all mistakes that don't follow from others: those of the config (`check_run`, the code of the step,
        `init_from`), or, if there are none, those that show where its data are opened (`open_all`).
      RunError: this process has other data than process 0.
    """
    begun = time.monotonic()
    notes = backend.prepare()
    stated = in_steps(experiment)
    resuming = on_primary("the start", lambda: bool(Store(workdir).steps()))
    with collect_errors(stated) as checks:
        traces = check_run(checks, stated)
        if traces is not None:
            experiment = with_default_eval_data(stated)
            with sharding.use_mesh(stated.mesh):
                with checks.collect(), user_code_errors("config.model, config.objective"):
                    step = trace_step(experiment, traces.layout)
                init_source = None if resuming else checks.run(find_init_source, stated, traces.layout)
    assert traces is not None, "traces that are left out have an error"
    data_sets = [("config.data", experiment.data)]
    data_sets += [(f"config.evals.{name}.data", evaluator.data) for name, evaluator in experiment.evals.items()]
    source, *tested = open_all(data_sets, stated)
    evals = dict(zip(experiment.evals, tested, strict=True))
    fingerprints = {"train": source.fingerprint} | {f"eval/{name}": x.fingerprint for name, x in evals.items()}
    _compare_data(fingerprints)
    return Run(
        experiment=experiment,
        workdir=workdir,
        layout=traces.layout,
        step=step,
        programs=traces.programs,
        init_source=init_source,
        source=source,
        evals=evals,
        fingerprints=fingerprints,
        allow_config_change=allow_config_change,
        begun=begun,
        notes=notes,
    )


def _compare_data(fingerprints: dict[str, str]) -> None:
    for name, there in on_primary("the data", lambda: fingerprints, DATA_SECONDS).items():
        if fingerprints[name] != there:
            raise RunError(
                f"the data of {name} on {distributed.process_name()} are not the data of {distributed.process_name(0)}"
            )
