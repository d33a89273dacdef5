"""The loss of 8-bit training: one config in several precisions, with the same initialization and batches.

    python benchmarks/quantize.py [--config=configs/text/gpt_tiny.py] [--steps=200] [--config.a.b=value]

Needs the extra `quantize`. Prints the mean training loss of the last twenty steps, and of the validation batches of
the config's first evaluation at the end.
"""

import copy
import statistics
import sys
import tempfile

from txjax import config
from txjax.cli.parser import Parser
from txjax.log import read_metrics
from txjax.log.terminal_table import table
from txjax.nn import Quantize
from txjax.train.trainer import train

CONTENDERS = {
    "as the config says": None,
    "int8": Quantize(),
    "int8, gradients too": Quantize(gradients="int8"),
    "float8_e4m3fn": Quantize(dtype="float8_e4m3fn"),
    "float8_e4m3fn, gradients in float8_e5m2": Quantize(dtype="float8_e4m3fn", gradients="float8_e5m2"),
}


def main() -> None:
    parser = Parser("benchmarks/quantize.py", __doc__)
    parser.add_argument("--config", default="configs/text/gpt_tiny.py")
    parser.add_argument("--steps", type=int, default=200)
    flags, overrides = parser.parse_known(sys.argv[1:])
    lines: list[list[str]] = []
    for name, quantize in CONTENDERS.items():
        fixed = [f"--config.num_steps={flags.steps}", "--config.log_every_steps=1"]
        experiment = config.load(flags.config, [*overrides, *fixed])
        experiment.model.quantize = copy.copy(quantize)
        experiment.checkpoint.best, experiment.trackers = None, ()
        valid = next(iter(experiment.evals))
        experiment.evals = {valid: experiment.evals[valid]}
        experiment.evals[valid].every_steps = flags.steps
        with tempfile.TemporaryDirectory() as folder:
            train(experiment, folder)
            rows = read_metrics(folder)
        last = statistics.mean(row["train/loss"] for row in rows[-20:])
        lines.append([name, f"{last:.4f}", f"{rows[-1][f'eval/{valid}/loss']:.4f}"])
        print(lines[-1], file=sys.stderr, flush=True)
    table(f"{flags.config}, {flags.steps} steps", ["products of the layers in", "train", valid], lines)


if __name__ == "__main__":
    main()
