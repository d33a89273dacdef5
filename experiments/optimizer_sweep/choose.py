"""Writes the best point of every optimizer to `chosen.json`, from what `txjax report FOLDER --json` printed."""

import json
import sys
from pathlib import Path

from config import OPTIMIZERS


def main(report: Path) -> None:
    report_json = json.loads(report.read_text(encoding="utf-8"))
    metric = report_json["metric"]
    best = {}
    for name, (kind, *_) in OPTIMIZERS.items():
        tried = [
            point
            for point in report_json["points"]
            if point["values"]["optimizer"] == kind.__name__ and metric in point["metrics"]
        ]
        first = min(tried, key=lambda point: point["metrics"][metric])
        best[name] = {path: value for path, value in first["values"].items() if path != "optimizer"}
        print(name, first["metrics"][metric], best[name])
    Path(__file__).with_name("chosen.json").write_text(json.dumps(best, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
