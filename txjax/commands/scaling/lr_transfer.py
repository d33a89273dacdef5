"""txjax scaling lr_transfer RUN [RUN...]: whether the best learning rate changes with the width."""

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.cli.parser import Parser
from txjax.errors import UserError, near_misses

if TYPE_CHECKING:
    from txjax.mup.lr_transfer import Point
    from txjax.report.runs import Run

SUMMARY = "find from runs of several widths and rates whether the best rate changes with the width"


def run(argv: list[str]) -> int:
    parser = Parser("scaling lr_transfer", __doc__)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", type=Path, help="the folder of a run, or a folder of such folders"
    )
    parser.add_argument("--metric", help="metric whose last value is compared; default: the first evaluation's loss")
    parser.add_argument("--out", type=Path, help="the folder for the plots; default: the first RUN")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.io.files import replace_text
    from txjax.log.terminal_table import table
    from txjax.mup.lr_transfer import transfer
    from txjax.report.png import write_figure
    from txjax.report.runs import read_runs
    from txjax.report.size_plots import draw_transfer
    from txjax.report.theme import LIGHT

    runs = read_runs(_folders(flags.runs))
    metric = flags.metric or _metric(runs)
    points = [_point(run, metric) for run in runs]
    result = transfer(points)
    out = flags.out or flags.runs[0]
    out.mkdir(parents=True, exist_ok=True)
    pictures = write_figure(draw_transfer(points, result, metric, LIGHT), out, "lr_transfer")
    summary = dataclasses.asdict(result) | {"metric": metric, "points": [dataclasses.asdict(point) for point in points]}
    replace_text(out / "lr_transfer.json", json.dumps(summary) + "\n")
    if flags.json:
        print(json.dumps(summary | {"pictures": [str(path) for path in pictures]}))
        return 0
    rows = [
        [str(o.width), f"{o.lr:.3g}", f"{o.loss:.4f}", "" if o.penalty is None else f"{o.penalty:.4f}", o.edge]
        for o in result.optima
    ]
    narrow = result.optima[0].width
    table(f"{metric}, {len(points)} runs", ["width", "best lr", "loss", f"more at the lr of {narrow}", ""], rows)
    for warning in result.warnings:
        print(warning)
    print(result.verdict)
    print("\n".join(map(str, pictures)))
    return 0


def _folders(paths: list[Path]) -> list[Path]:
    """The given folders that are runs, and the runs directly inside the others."""
    folders = []
    for folder in paths:
        inside = (
            [folder] if (folder / "config.json").exists() else sorted(p.parent for p in folder.glob("*/config.json"))
        )
        if not inside:
            raise UserError("RUN", "the folder of a run, or one with such folders in it", str(folder))
        folders += inside
    return folders


def _metric(runs: "list[Run]") -> str:
    """The first evaluation's loss, of any run: the first run may have diverged before it; else the training loss."""
    evals = [key for run in runs for key in run.metrics() if key.startswith("eval/") and key.endswith("/loss")]
    return evals[0] if evals else "train/loss"


def _point(run: "Run", metric: str) -> "Point":
    from txjax.mup.lr_transfer import Point

    width = run.config.get("model", {}).get("width")
    lr = run.config.get("optimizer", {}).get("peak_lr")
    if width is None or lr is None:
        raise UserError(str(run.workdir), "a run with model.width and optimizer.peak_lr in its config.json")
    last = run.last()
    if metric not in last and "train/loss" in last and math.isfinite(float(last["train/loss"])):
        raise UserError("--metric", f"a metric of {run.name}", metric, near_misses(metric, run.metrics()))
    # A run that stopped at a non-finite loss has no later evaluation.
    step = max((row["step"] for row in run.rows if metric in row), default=0)
    ended = step == run.config.get("num_steps") and metric in last
    return Point(width, lr, float(last[metric]) if ended else math.inf)
