"""Prepares a run: checks its config, builds its layout, reads one example of its data. Writes no workdir."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import jax

from txjax import distributed, sharding, tree
from txjax.checkpoint import Store
from txjax.data import Source
from txjax.data.loading.epochs import in_steps
from txjax.distributed import on_primary
from txjax.experiment import Experiment, with_default_eval_data
from txjax.nn import microbatch_of
from txjax.train.check import check, open_all
from txjax.train.check_scores import check_scores
from txjax.train.state.counting import forward_of
from txjax.train.state.init_from import InitSource, find_init_source
from txjax.train.state.state import Layout, batch_spec, build_layout
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
      init_source: the run whose parameters it starts from. If None, it draws its own or resumes.
      source: the training data.
      evals: the data of the evaluations, by name.
      fingerprints: of all data, by name.
    """

    experiment: Experiment
    workdir: Path
    layout: Layout
    init_source: InitSource | None
    source: Source
    evals: dict[str, Source]
    fingerprints: dict[str, str]


def prepare(experiments: Sequence[Experiment], workdirs: Sequence[Path]) -> list[Run]:
    """Checks experiments that train together (or one), and opens their data, which may prepare them in the cache.

    What can differ between experiments that train together is checked by `population`; the rest is the first one's.

    Raises:
      UserError: for all mistakes that don't follow from others; see `check` and `open_all`.
      RunError: this process has other data than process 0.
    """
    experiments = [in_steps(experiment) for experiment in experiments]
    layout = checked_layout(experiments[0])
    stated, experiments = experiments[0], [with_default_eval_data(experiment) for experiment in experiments]
    resuming = on_primary("the start", lambda: any(Store(workdir).steps() for workdir in workdirs))
    first = experiments[0]
    with sharding.use_mesh(first.mesh):
        init_source = None if resuming else find_init_source(first, layout)
    written = [json.dumps(tree.to_json(experiment.data)) for experiment in experiments]
    different = {text: experiments[written.index(text)].data for text in dict.fromkeys(written)}
    data_sets = [("config.data", data) for data in different.values()]
    data_sets += [(f"config.evals.{name}.data", evaluator.data) for name, evaluator in first.evals.items()]
    opened = open_all(data_sets, stated)
    sources = dict(zip(different, opened, strict=False))
    evals = dict(zip(first.evals, opened[len(sources) :], strict=True))
    tested = {f"eval/{name}": source.fingerprint for name, source in evals.items()}
    runs = []
    for experiment, workdir, text in zip(experiments, workdirs, written, strict=True):
        fingerprints = {"train": sources[text].fingerprint} | tested
        _compare_data(fingerprints)
        runs.append(Run(experiment, workdir, layout, init_source, sources[text], evals, fingerprints))
    return runs


def checked_layout(experiment: Experiment) -> Layout:
    """The layout of an experiment that passes `check`. Its shapes and shardings are the last that can be wrong."""
    with user_code_errors("config"):
        check(experiment)
    experiment = with_default_eval_data(experiment)
    with sharding.use_mesh(experiment.mesh) as mesh, user_code_errors("config.model, config.objective"):
        layout = build_layout(experiment, mesh)
        if layout.abstract.model_state:  # its groups may not suit the batch: the forward pass finds that
            spec = batch_spec(experiment.data, experiment.batch_size // experiment.microbatches)
            params, others = layout.variables["params"], layout.abstract.model_state
            with microbatch_of(experiment.microbatches):
                jax.eval_shape(forward_of(experiment), params, others, spec)
        check_scores(experiment, layout.variables)
        return layout


def _compare_data(fingerprints: dict[str, str]) -> None:
    for name, there in on_primary("the data", lambda: fingerprints, DATA_SECONDS).items():
        if fingerprints[name] != there:
            raise RunError(
                f"the data of {name} on {distributed.process_name()} are not the data of {distributed.process_name(0)}"
            )
