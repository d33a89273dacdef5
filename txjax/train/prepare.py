"""Prepares a run: checks its config, traces its layout and its step, opens its data. Writes no workdir."""

import time
from collections.abc import Sequence
from pathlib import Path

from txjax import backend, distributed, sharding
from txjax.changes import phases
from txjax.checkpoint import Store
from txjax.data.loading.epochs import in_steps
from txjax.distributed import on_primary
from txjax.errors import RunError
from txjax.experiment import Experiment, with_default_eval_data
from txjax.train.branch import find_branch
from txjax.train.check import check_run, collect_errors
from txjax.train.open_data import open_all
from txjax.train.prepared_run import Run, RunPhase
from txjax.train.run.workdir import CHANGED
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import Layout
from txjax.train.step import Step, trace_step
from txjax.user_code import user_code_errors

DATA_SECONDS = 3600.0  # that processes wait for one that still prepares data


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
                    run = phases(experiment)
                    steps = _trace_steps([phase.experiment for phase in run], traces.layout)
                begins = not resuming and stated.branch_from is None
                init_source = checks.run(find_init_source, stated, traces.layout) if begins else None
                branch = None if resuming else checks.run(find_branch, experiment, traces.layout)
    assert traces is not None, "traces that are left out have an error"
    data_sets = [("config.data", experiment.data)]
    data_sets += [(f"config.evals.{name}.data", evaluator.data) for name, evaluator in experiment.evals.items()]
    changed = {i: phase for i, phase in enumerate(run) if any(path.startswith("data") for path in phase.changed)}
    data_sets += [(f"config.changes[{i - 1}].fields.data", phase.experiment.data) for i, phase in changed.items()]
    source, *others = open_all(data_sets, stated)
    evals = dict(zip(experiment.evals, others, strict=False))
    sources = dict(zip(changed, others[len(evals) :], strict=True))
    fingerprints = {"train": source.fingerprint} | {f"eval/{name}": x.fingerprint for name, x in evals.items()}
    fingerprints |= {f"{CHANGED}{run[i].begin}": x.fingerprint for i, x in sources.items()}
    _compare_data(fingerprints)
    later: list[RunPhase] = []
    for i, phase in enumerate(run[1:], start=1):
        before = later[-1].source if later else source
        later.append(RunPhase(phase, steps[i], sources.get(i, before)))
    return Run(
        experiment=experiment,
        workdir=workdir,
        layout=traces.layout,
        step=steps[0],
        later=tuple(later),
        programs=traces.programs,
        init_source=init_source,
        branch=branch,
        source=source,
        evals=evals,
        fingerprints=fingerprints,
        allow_config_change=allow_config_change,
        begun=begun,
        notes=notes,
    )


def _trace_steps(experiments: Sequence[Experiment], layout: Layout) -> list[Step]:
    """The step of each phase of a run: the same one wherever the shapes of the batches say how it differs."""
    kinds = [(experiment.microbatches, len(experiment.data.batch_specs()) > 1) for experiment in experiments]
    steps = {
        kind: trace_step([phase for phase, other in zip(experiments, kinds, strict=True) if other == kind], layout)
        for kind in dict.fromkeys(kinds)
    }
    return [steps[kind] for kind in kinds]


def _compare_data(fingerprints: dict[str, str]) -> None:
    for name, there in on_primary("the data", lambda: fingerprints, DATA_SECONDS).items():
        if fingerprints[name] != there:
            raise RunError(
                f"the data of {name} on {distributed.process_name()} are not the data of {distributed.process_name(0)}"
            )
