"""txjax evaluate: runs the evaluations of a trained run, or tasks of a harness, from its workdir alone."""

import json
import sys

from txjax.cli.harness_flags import COLUMNS, NAME, add_harness_flags, task_rows, with_tasks
from txjax.cli.load_run import opened, parser, read

SUMMARY = "score a checkpoint of a run on its evaluation sets, or on tasks of lm-evaluation-harness"


def run(argv: list[str]) -> int:
    flag_parser = parser("evaluate", __doc__)
    add_harness_flags(flag_parser)
    flag_parser.add_processes()
    flags = flag_parser.parse_args(argv)

    import jax

    from txjax import distributed
    from txjax.data.following import differences, names_and_splits
    from txjax.log import plain
    from txjax.log.terminal_table import table
    from txjax.train.run_eval import evaluator
    from txjax.types import UserError
    from txjax.visible import visible

    distributed.start(flags.coordinator_address, flags.process_count, flags.process_index)
    experiment = with_tasks(read(flags), flags)
    if not experiment.evals:
        raise UserError("config.evals", "at least one evaluation", experiment.evals)
    with opened(flags, experiment) as found:
        evaluate = evaluator(experiment, found.layout.batch, folder=flags.workdir)
        scores = {name: evaluate(name, found.variables, found.step) for name in experiment.evals}
    if not distributed.is_primary():
        return 0
    sets = {name: names_and_splits(each.data) for name, each in experiment.evals.items()}
    for name, each in experiment.evals.items():
        for difference in differences(each.data, each.trained_on(experiment.data)):
            print(f"{name} reads {difference}", file=sys.stderr)
    files = sorted(str(path) for path in flags.workdir.glob(f"*/*/{found.step}.*") if path.parent.name in scores)
    title = f"step {found.step} on {jax.device_count()} x {jax.devices()[0].device_kind}"
    if flags.json:
        flat = {f"eval/{name}/{k}": v for name, values in scores.items() for k, v in values.items()}
        data = {name: {"name": data, "split": split} for name, (data, split) in sets.items()}
        print(json.dumps(plain({"step": found.step, **flat}) | {"data": data, "files": files}))
    elif flags.tasks:
        table(title, COLUMNS, task_rows(scores[NAME]))
    else:
        rows = [
            [name, *sets[name], metric, f"{value:.4f}"]
            for name, values in scores.items()
            for metric, value in values.items()
        ]
        table(title, ["evaluation", "data", "split", "metric", "value"], rows)
        print("\n".join(map(visible, files)))
    return 0
