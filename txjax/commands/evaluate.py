"""txjax evaluate: a trained run's scores, from its workdir alone."""

import json
from pathlib import Path

from txjax.commands.parser import Parser

SUMMARY = "score a checkpoint of a run on its evaluation sets"


def run(argv: list[str]) -> int:
    parser = Parser("evaluate", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_argument(
        "--trust", action="append", default=[], help="a module outside txjax whose classes the config uses"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.backend import prepare

    prepare()
    import jax

    from txjax import sharding
    from txjax.commands.table import table
    from txjax.train.check import check
    from txjax.train.restore import load_variables
    from txjax.train.run_eval import evaluator
    from txjax.train.workdir import read_config
    from txjax.types import UserError

    experiment = read_config(flags.workdir, tuple(flags.trust))
    if not experiment.evals:
        raise UserError("config.evals", "at least one evaluation", experiment.evals)
    check(experiment)
    with sharding.use(experiment.mesh) as built:
        held, step = load_variables(flags.workdir, flags.step, experiment, built)
        evaluate = evaluator(experiment, sharding.batch_sharding(built, experiment.mesh))
        scores = {name: evaluate(name, held) for name in experiment.evals}
    if flags.json:
        print(json.dumps({"step": step, **{f"eval/{n}/{k}": v for n, s in scores.items() for k, v in s.items()}}))
    else:
        rows = [[name, metric, f"{value:.4f}"] for name, values in scores.items() for metric, value in values.items()]
        table(f"step {step} on {jax.device_count()} x {jax.devices()[0].device_kind}", ["set", "metric", "value"], rows)
    return 0
