"""Loads a trained run from its workdir alone, for `evaluate` and `generate`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from txjax.cli.parser import Parser

if TYPE_CHECKING:
    from txjax.experiment import Experiment
    from txjax.train.state.state import Layout
    from txjax.types import PyTree


STEP = "last (default), best or a number"


class OpenRun(NamedTuple):
    """A run's model and its variables.

    Attributes:
      experiment: the experiment of config.json.
      variables: the variables of the model at `step`.
      step: number of updates done.
      layout: of the run's state.
    """

    experiment: Experiment
    variables: PyTree
    step: int
    layout: Layout


def parser(command: str, summary: str) -> Parser:
    """Returns a parser with the flags for a run and a step."""
    run_parser = Parser(command, summary)
    run_parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    run_parser.add_argument("--step", default="last", help=STEP)
    run_parser.add_trust()
    run_parser.add_argument("--json", action="store_true", help="print JSON")
    return run_parser


def read(flags: argparse.Namespace, overrides: Sequence[str] = ()) -> Experiment:
    """Sets up JAX and returns the run's experiment, with overrides applied. No weights are loaded."""
    from txjax.backend import prepare

    prepare()
    return read_experiment(flags, overrides)


def read_experiment(flags: argparse.Namespace, overrides: Sequence[str] = ()) -> Experiment:
    """The run's experiment, with overrides applied. No device is touched."""
    from txjax.errors import UserError
    from txjax.experiment import Experiment, with_default_eval_data
    from txjax.modules import trusted_modules
    from txjax.overrides import override_all
    from txjax.train.run.workdir import read_config

    config = read_config(flags.workdir, trusted_modules(flags.trust))
    if not isinstance(config, Experiment):
        hint = f"start a run with --config.init_from={flags.workdir}"
        if hasattr(config, "vocab") and not (flags.workdir / "huggingface" / "tokenizer.json").exists():
            hint = f"it came without a tokenizer.json: import a folder that has one, or {hint}"
        raise UserError("--workdir", "the folder of a run", f"a model alone in {flags.workdir}", hint=hint)
    return with_default_eval_data(override_all(config, overrides, {}))


@contextlib.contextmanager
def open_run(
    flags: argparse.Namespace, experiment: Experiment, check: Callable[[Experiment], Layout] | None = None
) -> Iterator[OpenRun]:
    """Checks the experiment and yields it with the variables of the step that the flags name, which are finite.

    Args:
      check: raises UserError for an experiment that can't be used, and returns its layout. If None, all is checked.
    """
    from txjax import sharding
    from txjax.checkpoint.finite import check_finite
    from txjax.train.check import check as check_all
    from txjax.train.state.restore import load_variables
    from txjax.types import flat_paths

    layout = (check or check_all)(experiment)
    with sharding.use_mesh(experiment.mesh):
        variables, step = load_variables(flags.workdir, flags.step, layout)
        check_finite(flags.workdir, step, flat_paths(variables))
        yield OpenRun(experiment, variables, step, layout)
