"""Runs from Python: train one, open one, and what a run offers."""

from __future__ import annotations

import _thread
import argparse
import dataclasses
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.errors import RunError, UserError
from txjax.types import PyTree

if TYPE_CHECKING:
    from txjax.cli.load_run import OpenRun
    from txjax.experiment import Experiment
    from txjax.plan.price import Plan
    from txjax.python.row_classes import Prediction

FIELD = "workdir"


def fit(
    experiment: Experiment | str,
    workdir: str | Path,
    *,
    until: int | None = None,
    allow_config_change: bool = False,
    on_step: Callable[[dict[str, Any]], Any] | None = None,
    on_eval: Callable[[int, dict[str, float]], Any] | None = None,
    on_save: Callable[[int, Path], Any] | None = None,
) -> Run:
    """Trains an experiment in a workdir, as `txjax train` does: the same call again resumes where it stopped.

    Ctrl-C, or the stop button of a notebook, ends the step and saves; `Run.finished` is False then.

    Args:
      experiment: an experiment, or the name of a config such as "txjax:text/gpt_tiny".
      workdir: the run's folder, or `s3://BUCKET/FOLDER` or `gs://BUCKET/FOLDER`: when this returns, all is there.
      until: the step to stop at and save, short of `num_steps`.
      allow_config_change: resume with a config that differs from the workdir's.
      on_step: gets a copy of each row that is logged, as `Run.metrics` has it.
      on_eval: gets the step and its scores, by the names of `metrics`.
      on_save: gets the step and the folder of a checkpoint, with the next row after it is complete.

    The three functions run on a thread that the training never waits for; this returns when the last call did. What
    they raise ends nothing: it is logged, and counted in `Run.callback_errors`. Of several processes, the first calls.

    Raises:
      UserError: whatever can be known to be wrong before the first step; another process trains in the workdir; the
        memory has no room for the run.
      RunError: the run failed.
    """
    from txjax import cpu
    from txjax.log.trackers.listeners import listeners
    from txjax.memory_errors import name_memory_errors
    from txjax.python.callbacks import Callbacks
    from txjax.python.python_configs import load_config
    from txjax.train.bucket import open_workdir
    from txjax.train.run.preemption import inside_other_program
    from txjax.train.trainer import train

    cpu.keep_freed_memory()  # before the client of a bucket and readers of files start threads
    loaded = load_config(experiment) if isinstance(experiment, str) else experiment
    callbacks = Callbacks(on_step, on_eval, on_save)
    failures: list[str] = []

    def interrupt(code: int, message: str) -> None:
        failures.append(message)
        if len(failures) == 1:
            _thread.interrupt_main()

    try:
        with (
            inside_other_program(),
            open_workdir(FIELD, workdir, interrupt) as folder,
            listeners.within((callbacks,)),
            name_memory_errors(),
        ):
            train(loaded, folder, allow_config_change, until)
    except KeyboardInterrupt:
        if failures:
            raise RunError(failures[0]) from None
        raise
    return Run(folder, trust=_modules_outside(loaded), callback_errors=dict(callbacks.errors), _home=workdir)


def _modules_outside(experiment: Experiment) -> tuple[str, ...]:
    """The modules outside txjax of an experiment's components, which the caller has imported and so trusts."""
    from txjax import tree

    modules = {type(node).__module__ for _, node in tree.walk(experiment, "config") if dataclasses.is_dataclass(node)}
    return tuple(sorted(name for name in modules if name.partition(".")[0] != "txjax"))


def open_run(workdir: str | Path, *, step: int | str = "last", trust: Sequence[str] = ()) -> Run:
    """The run in a workdir.

    Args:
      workdir: a folder, or the URL of a run in a bucket, which is copied as it is now into a folder of the cache.
      step: whose weights the run has: a number, "last" or "best".
      trust: modules of one's own that its config names, which are imported.

    Raises:
      UserError: there is no run.
    """
    from txjax.train.bucket import cached_copy

    run = Run(cached_copy(FIELD, workdir), str(step), tuple(trust), _home=workdir)
    run.experiment  # noqa: B018  reads config.json
    return run


@dataclasses.dataclass(frozen=True)
class Run:
    """A run in its workdir. Every property is read anew, so that it shows a run that still trains, too.

    Attributes:
      workdir: its folder; of a run in a bucket, a folder of the cache with the same files.
      step: whose weights it has: a number, "last" or "best".
      trust: modules that its config names, which are imported.
      callback_errors: how often a callback of `fit` raised, by its name.
    """

    workdir: Path
    step: str = "last"
    trust: tuple[str, ...] = ()
    callback_errors: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    _home: str | Path | None = dataclasses.field(default=None, repr=False, compare=False)  # where it resumes

    @property
    def experiment(self) -> Experiment:
        """The experiment of `config.json`."""
        from txjax.cli.load_run import read

        return read(self._flags())

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of `metrics.jsonl`: step, time, losses and scores by their names. `pandas.DataFrame` takes them."""
        from txjax.log import read_metrics

        return [dict(row) for row in read_metrics(self.workdir)]

    @property
    def finished(self) -> bool:
        """Whether the last step is done."""
        rows = self.metrics
        return bool(rows) and rows[-1]["step"] == self.experiment.num_steps

    @property
    def params(self) -> PyTree:
        """The parameters at `step`, as NumPy arrays in nested dicts."""
        import jax

        with self._opened() as opened:
            return jax.device_get(opened.variables["params"])

    def resume(self, *, until: int | None = None) -> Run:
        """Trains to the last step, or to `until`."""
        return fit(self.experiment, self._home or self.workdir, until=until)

    def evaluate(self) -> dict[str, float]:
        """The scores of its evaluations at `step`, by the names of `metrics`: `txjax evaluate`."""
        from txjax.cli.scoring import score_runs

        experiment = self.experiment
        if not experiment.evals:
            raise UserError("config.evals", "at least one evaluation", experiment.evals)
        (scored,) = score_runs(self._flags(), experiment, experiment.evals)
        return {f"eval/{name}/{k}": float(v) for name, scores in scored.scores.items() for k, v in scores.items()}

    def generate(self, *prompts: str, **options: Any) -> list[str]:
        """Texts after prompts: the flags of `txjax generate` as keywords, such as `length=100, temperature=0.8`.

        Returns:
          For each prompt in turn `samples` texts, without the prompt.
        """
        from txjax.cli.writing import task_of, write_texts
        from txjax.commands.generate import flags_of

        words = [f"--{name}={value}" for name, value in options.items()]
        flags = flags_of([f"--workdir={self.workdir}", f"--step={self.step}", *words])
        experiment = self.experiment
        task = task_of(flags, experiment, prompts)
        with self._opened() as opened:
            return [text for written in write_texts(task, flags, experiment, opened) for text in written.texts]

    def predict(self, rows: Any) -> list[Prediction]:
        """The class of each row, with all probabilities: of a classifier of texts or images.

        Args:
          rows: a pandas table or dicts with the columns of the training data; the label's is not needed.
        """
        from txjax.python.row_classes import predict
        from txjax.tree import read_json

        manifest = self.workdir / "manifest.json"
        classes = read_json(manifest).get("classes") if manifest.exists() else None
        with self._opened() as opened:
            return predict(opened, rows, classes)

    def plan(self, topology: str, slices: int = 1) -> Plan:
        """What a step of it takes on devices that need not be here, such as "v5e:4x4" or "h100:8": `txjax plan`.

        In a notebook, and in a terminal, it shows its summary; `to_json` has all figures.

        Args:
          slices: of a TPU pod.

        Raises:
          UserError: there are no such devices, or their compiler is not installed.
        """
        from txjax.plan.layouts import plan_of
        from txjax.plan.target import check_moments, target_of
        from txjax.train.check import check_layout
        from txjax.train.state.counting import costliest_phase

        target = target_of(topology, slices)
        experiment = costliest_phase(self.experiment).experiment
        check_moments(experiment, target)
        check_layout(experiment, len(target.devices))
        return plan_of(experiment, target)

    def report(self) -> Path:
        """Writes the page with the run's curves and scores. Returns its path: `txjax report`."""
        from txjax.commands import report

        report.run([str(self.workdir)])
        return self.workdir / "report" / "index.html"

    @contextmanager
    def _opened(self) -> Iterator[OpenRun]:
        from txjax.cli.load_run import open_run
        from txjax.train.check import check_without_data

        with open_run(self._flags(), self.experiment, check_without_data) as opened:
            yield opened

    def _flags(self) -> argparse.Namespace:
        return argparse.Namespace(workdir=self.workdir, step=self.step, trust=list(self.trust), adapters=[], json=False)

    def _repr_html_(self) -> str:
        """In a notebook: the newest value of each metric."""
        newest: dict[str, Any] = {}
        for row in self.metrics:
            newest |= row
        shown = {name: value for name, value in newest.items() if name.startswith(("step", "train/", "eval/", "loss"))}
        cells = "".join(
            f"<tr><td>{html.escape(k)}</td><td>{html.escape(f'{v:.6g}')}</td></tr>" for k, v in shown.items()
        )
        return f"<p>{html.escape(str(self.workdir))}</p><table>{cells}</table>"
