"""Whether the evaluations of an experiment have the scores that its config names."""

from collections.abc import Iterator, Mapping, Sequence

import jax

from txjax.errors import UserError, near_misses
from txjax.eval import Evaluator
from txjax.eval.evaluator import Programs
from txjax.experiment import Experiment
from txjax.train.run_eval import eval_setup
from txjax.train.state.state import Layout, model_variables


def named_metrics(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The fields that name metrics of evaluations, and the metrics."""
    if experiment.checkpoint.best is not None:
        yield "config.checkpoint.best", experiment.checkpoint.best
    if experiment.stop is not None:
        yield "config.stop.metric", experiment.stop.metric


def check_metric(field: str, metric: str, evals: Mapping[str, Evaluator]) -> None:
    """Checks that a metric is `eval/NAME/SCORE` of an evaluation.

    Raises:
      UserError: there is no such evaluation; with near misses.
    """
    kind, name, score = _parts(metric)
    if kind != "eval" or name not in evals or not score:
        choices = [f"eval/{name}/loss" for name in evals]
        raise UserError(field, "a metric of an evaluation", metric, near_misses(metric, choices) or choices)


def check_scores(
    experiment: Experiment,
    layout: Layout,
    programs: Programs,
    computed: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Compares the metrics of `checkpoint.best` and `stop` with the scores of the evaluations.

    Args:
      programs: of the evaluations, to which those that are traced here are added.
      computed: the names of the scores that evaluations gave, by the evaluation's name; only these are looked at. If
        None, all evaluations, of which none was computed yet.

    Raises:
      UserError: the evaluation has no such score; with near misses.
    """
    for field, metric in named_metrics(experiment):
        _, name, score = _parts(metric)
        scores = None if computed is None else computed.get(name, ())
        if scores is not None and (not scores or score in scores):
            continue
        known = _declared(experiment, name, layout, programs) or scores
        if known and score not in known:
            near = [f"eval/{name}/{other}" for other in near_misses(score, known) or known]
            raise UserError(field, f"a score of config.evals.{name}", metric, near)


def _parts(metric: str) -> tuple[str, str, str]:
    """The kind, the evaluation and the score of `eval/NAME/SCORE`; "" for what isn't there."""
    kind, _, rest = metric.partition("/")
    name, _, score = rest.partition("/")
    return kind, name, score


def _declared(experiment: Experiment, name: str, layout: Layout, programs: Programs) -> tuple[str, ...]:
    setup = eval_setup(experiment, name, layout.batch, programs)
    with jax.transfer_guard_host_to_device("allow"):  # tracing makes constants
        return setup.evaluator.score_names(setup, model_variables(layout.abstract))
