"""txjax evaluate: runs the evaluations of a trained run, from its workdir alone."""

import json
import sys

from txjax.cli.load_run import parser, read
from txjax.cli.scoring import scored

SUMMARY = "score a checkpoint of a run on its evaluation sets"


def run(argv: list[str]) -> int:
    flag_parser = parser("evaluate", __doc__)
    flag_parser.add_processes()
    flags = flag_parser.parse_args(argv)

    import jax

    from txjax import distributed
    from txjax.data.following import differences, names_and_splits
    from txjax.eval.resampling import intervals
    from txjax.log import plain
    from txjax.log.terminal_table import table
    from txjax.types import UserError
    from txjax.visible import visible

    distributed.start(flags.coordinator_address, flags.process_count, flags.process_index)
    experiment = read(flags)
    if not experiment.evals:
        raise UserError("config.evals", "at least one evaluation", experiment.evals)
    found = scored(flags, experiment, experiment.evals)
    if not distributed.is_primary():
        return 0
    sets = {name: names_and_splits(each.data) for name, each in experiment.evals.items()}
    for name, each in experiment.evals.items():
        for difference in differences(each.data, each.trained_on(experiment.data)):
            print(f"{name} reads {difference}", file=sys.stderr)
    bounds = {name: intervals(experiment.evals[name].rescore, rows) for name, rows in found.results.items()}
    files = sorted(str(path) for path in flags.workdir.glob(f"*/*/{found.step}.*") if path.parent.name in found.scores)
    if flags.json:
        flat = {f"eval/{name}/{k}": v for name, values in found.scores.items() for k, v in values.items()}
        flat |= {f"eval/{name}/{k}_ci": list(v) for name, values in bounds.items() for k, v in values.items()}
        data = {name: {"name": data, "split": split} for name, (data, split) in sets.items()}
        print(json.dumps(plain({"step": found.step, **flat}) | {"data": data, "files": files}))
    else:
        rows = [
            [name, *sets[name], metric, _cell(value, bounds.get(name, {}).get(metric))]
            for name, values in found.scores.items()
            for metric, value in values.items()
        ]
        title = f"step {found.step} on {jax.device_count()} x {jax.devices()[0].device_kind}"
        table(title, ["eval", "data", "split", "metric", "value [95% interval]"], rows)
        print("\n".join(map(visible, files)))
    return 0


def _cell(value: float, bounds: tuple[float, float] | None) -> str:
    return f"{value:.4f} [{bounds[0]:.4f}, {bounds[1]:.4f}]" if bounds else f"{value:.4f}"
