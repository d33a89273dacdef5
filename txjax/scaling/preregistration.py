"""A prediction that is written down before the run that it is about, and scored when the run is over."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.io.files import replace_text
from txjax.log import METRICS, Row
from txjax.types import UserError

NAME = "prediction.json"


def register(path: Path, prediction: Mapping[str, Any], law: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Writes a prediction with the date, the law and the hash of the rows that it was fitted to. Returns all that.

    Args:
      path: the file; in the workdir of the run to come, named `prediction.json`, a report of the run scores it.
      prediction: what `Study.predict` gave.
      law: what `Study.to_json` gave.
      metric: of the run's log, which is foretold.

    Raises:
      UserError: there is a prediction already, or the run has begun.
    """
    if path.exists():
        raise UserError("--register", "a new file", str(path), hint="a prediction is made once; delete it yourself")
    if (path.parent / METRICS).exists():
        raise UserError("--register", "a run that has not begun", str(path.parent), hint=f"it has {METRICS}")
    written = {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "metric": metric,
        "prediction": dict(prediction),
        "form": law["form"],
        "parameters": law["parameters"],
        "rows_used": law["rows_used"],
        "data": law["data"],
        "warnings": law["warnings"],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(written, indent=2) + "\n")
    return written


def score(workdir: Path, last: Row) -> dict[str, float]:
    """What was foretold of a run, beside what came: `prediction/...`; {} where nothing was, or it isn't there yet.

    Args:
      workdir: the run's folder.
      last: the last value of every metric of its log; {} before its end.
    """
    path = workdir / NAME
    if not path.exists():
        return {}
    try:
        written = json.loads(path.read_text())
        told, metric = written["prediction"], written["metric"]
        found = {"prediction/loss": float(told["loss"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(str(path), "a prediction as `txjax scaling predict` writes it", hint=str(error)) from None
    for name in ("interval", "interval_of_a_run"):
        if name in told:
            found |= {f"prediction/{name}_low": float(told[name][0]), f"prediction/{name}_high": float(told[name][1])}
    if isinstance(last.get(metric), float | int):
        found["prediction/relative_error"] = found["prediction/loss"] / float(last[metric]) - 1
    return found
