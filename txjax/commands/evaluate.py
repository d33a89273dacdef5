"""txjax evaluate: runs the evaluations of a trained run, or tasks of a harness, from its workdir alone.

--config.a.b=value changes a field of its config, such as the data; then nothing is written into the workdir.
"""

import json
import string
import sys

from txjax.cli.adapter_runs import add_adapters
from txjax.cli.harness_flags import COLUMNS, NAME, add_harness_flags, task_rows, with_tasks
from txjax.cli.load_run import parser, read_experiment
from txjax.cli.scoring import score_runs

SUMMARY = "score a checkpoint of a run on its evaluation sets, or on tasks of lm-evaluation-harness"


def run(argv: list[str]) -> int:
    flag_parser = parser("evaluate", __doc__)
    add_harness_flags(flag_parser)
    add_adapters(flag_parser)
    flag_parser.add_processes()
    flags, overrides = flag_parser.parse_known(argv)

    import jax

    from txjax import backend, distributed
    from txjax.data.loading.default_eval_data import differences, names_and_splits
    from txjax.errors import UserError
    from txjax.log import plain
    from txjax.log.terminal_table import table
    from txjax.terminal_escape import visible

    experiment = read_experiment(flags, overrides)
    distributed.start(
        flags.coordinator_address, flags.process_count, flags.process_index, experiment.heartbeat_timeout_seconds
    )
    with distributed.joint_work(flags.workdir / "logs", f"evaluating {flags.workdir}"):
        backend.prepare()
        experiment = with_tasks(experiment, flags)
        if not experiment.evals:
            raise UserError("config.evals", "at least one evaluation", experiment.evals)
        scored_sides = score_runs(flags, experiment, experiment.evals, overrides)
    if not distributed.is_primary():
        return 0
    sets = {name: names_and_splits(evaluator.data) for name, evaluator in experiment.evals.items()}
    for name, evaluator in experiment.evals.items():
        for difference in differences(evaluator.data, evaluator.trained_on(experiment.data)):
            print(f"{name} reads {difference}", file=sys.stderr)
    bounds = [side.intervals(experiment) for side in scored_sides]
    title = f"step {scored_sides[0].step} on {jax.device_count()} x {jax.devices()[0].device_kind}"
    letters = string.ascii_uppercase[: len(scored_sides)]
    columns = [*letters] if flags.adapters else ["value [95% interval]"]

    def cells(name: str, metric: str) -> list[str]:
        sides = zip(scored_sides, bounds, strict=True)
        return [_cell(side.scores[name][metric], side_bounds.get(name, {}).get(metric)) for side, side_bounds in sides]

    if flags.json:
        data = {name: {"name": data, "split": split} for name, (data, split) in sets.items()}
        for side, side_bounds in zip(scored_sides, bounds, strict=True):
            flat = {f"eval/{name}/{k}": v for name, values in side.scores.items() for k, v in values.items()}
            flat |= {f"eval/{name}/{k}_ci": list(v) for name, values in side_bounds.items() for k, v in values.items()}
            run = {"run": str(side.workdir)} if flags.adapters else {}
            files = [] if overrides else side.files()
            print(json.dumps(plain({**run, "step": side.step, **flat}) | {"data": data, "files": files}))
    elif flags.tasks:
        for side in scored_sides:
            table(f"{side.workdir}, {title}" if flags.adapters else title, COLUMNS, task_rows(side.scores[NAME]))
    else:
        for letter, side in zip(letters, scored_sides, strict=True) if flags.adapters else ():
            print(visible(f"{letter}: {side.workdir}, step {side.step}"))
        scores = [(name, metric) for name, values in scored_sides[0].scores.items() for metric in values]
        rows = [[name, *sets[name], metric, *cells(name, metric)] for name, metric in scores]
        table(title, ["eval", "data", "split", "metric", *columns], rows)
        if not overrides:
            print("\n".join(visible(file) for side in scored_sides for file in side.files()))
    return 0


def _cell(value: float, bounds: tuple[float, float] | None) -> str:
    return f"{value:.4f} [{bounds[0]:.4f}, {bounds[1]:.4f}]" if bounds else f"{value:.4f}"
