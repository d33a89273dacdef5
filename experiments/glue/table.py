"""One table of GLUE's tasks, by their official metrics: the mean of the seeds at the last step.

    txjax sweep --config=configs/text/glue.py --workdir=runs/glue
    python experiments/glue/table.py runs/glue

Numbers are times 100, as in Wang et al. 2019, table 2: a task's score is the mean of its metrics (of mnli's two
validation sets, too), and the last line the mean of the tasks that were run, which is GLUE's score if these are all.
"""

import argparse
import collections
import math
import statistics
from pathlib import Path

from txjax.eval import GLUE
from txjax.log import read_metrics
from txjax.log.terminal_table import table
from txjax.sweep.sweep_folder import Folder, is_finished

EVALS = {"mnli": ("valid", "mismatched")}


def runs(sweep: Path) -> dict[str, list[dict[str, float]]]:
    """The metrics of the finished runs of each task, times 100, by `EVALUATION METRIC`."""
    found: dict[str, list[dict[str, float]]] = collections.defaultdict(list)
    folder = Folder(sweep)
    for point in folder.points():
        workdir = folder.run(point.name)
        if not is_finished(workdir, point.num_steps):
            continue
        last = {name: value for row in read_metrics(workdir) for name, value in row.items()}
        task = point.values["variant"]
        names = [(each, metric) for each in EVALS.get(task, ("valid",)) for metric in GLUE[task]]
        found[task].append({f"{each} {metric}": 100 * last[f"eval/{each}/{metric}"] for each, metric in names})
    return dict(found)


def shown(values: list[float]) -> str:
    """Mean ± standard error of the mean; of one value, itself."""
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values) / math.sqrt(len(values)):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="the sweep's folder")
    rows, scores = [], []
    for task, seeds in runs(parser.parse_args().sweep).items():
        names = seeds[0]
        parts = [f"{name.removeprefix('valid ')} {shown([run[name] for run in seeds])}" for name in names]
        each = [statistics.mean(run.values()) for run in seeds]
        scores.append(statistics.mean(each))
        rows.append([task, str(len(seeds)), ", ".join(parts), shown(each)])
    rows.append([f"{len(rows)} of {len(GLUE)} tasks", "", "", f"{statistics.mean(scores):.1f}" if scores else "-"])
    table("GLUE, validation sets", ["task", "seeds", "metrics", "score"], rows)


if __name__ == "__main__":
    main()
