"""Prints the study's table of a sweep's finished runs.

python experiments/unit/table.py runs/unit
"""

import collections
import json
import statistics
import sys
from pathlib import Path

from scipy import stats

from txjax.log import read_metrics
from txjax.sweep.sweep_folder import Folder, is_finished

SCORES = {
    "digits": "ap50",
    "clothes": "ap50",
    "counting": "accuracy",
    "presence": "accuracy",
    "nlvr": "accuracy",
    "mrpc": "accuracy",
    "cola": "matthews",
    "banking": "accuracy",
}
TOGETHER = ("shared", "separate")


def main(sweep: Path) -> None:
    folder = Folder(sweep)
    scores: dict[str, dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    parameters: dict[str, int] = {}
    for point in folder.points():
        workdir = folder.run(point.name)
        if not is_finished(workdir, point.num_steps):
            continue
        variant = point.values["variant"]
        parameters[variant] = json.loads((workdir / "manifest.json").read_text(encoding="utf-8"))["parameters"]
        last = {name: value for row in read_metrics(workdir) for name, value in row.items()}
        for task, metric in SCORES.items():
            if (value := last.get(f"eval/{task}/{metric}")) is not None:
                scores[variant][task].append(100 * value)
    print("task, score times 100", "a model each", *(f"{variant} decoders" for variant in TOGETHER), sep=" | ")
    for task, metric in SCORES.items():
        print(f"{task}, {metric}", *(interval(scores[variant][task]) for variant in (task, *TOGETHER)), sep=" | ")
    alone = sum(parameters.get(task, 0) for task in SCORES)
    print(
        "parameters", *(f"{count:,}" for count in (alone, *(parameters.get(name, 0) for name in TOGETHER))), sep=" | "
    )


def interval(values: list[float]) -> str:
    """The mean of several runs with its 95% interval, of Student's t."""
    if len(values) < 2:
        return "".join(f"{value:.1f}" for value in values) or "-"
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.1f} ± {half:.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
