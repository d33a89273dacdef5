"""Preregistered predictions: written before the run that they predict, and scored after it."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.errors import UserError
from txjax.io.files import create_text
from txjax.io.text_files import read_text
from txjax.log import METRICS, Row

NAME = "prediction.json"


def register(path: Path, prediction: Mapping[str, Any], law: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Writes a prediction with the date, the law and the hash of the rows that it was fitted to. Returns them.

    Args:
      path: the file; `txjax report` scores a `prediction.json` in the run's workdir.
      prediction: the result of `Study.predict`.
      law: the result of `Study.to_json`.
      metric: the predicted metric of the run's log.

    Raises:
      UserError: the file exists, or the run has started.
    """
    if (path.parent / METRICS).exists():
        raise UserError("--register", "a run that has not started", str(path.parent), hint=f"it has {METRICS}")
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
    try:
        create_text(path, json.dumps(written, indent=2) + "\n")
    except FileExistsError:
        hint = "a registered prediction is not overwritten; delete it first"
        raise UserError("--register", "a new file", str(path), hint=hint) from None
    return written


def score(workdir: Path, last: Row) -> dict[str, float]:
    """The registered prediction of a run and its relative error as metrics `prediction/...`. {} if there is none.

    Args:
      workdir: the run's folder.
      last: the last value of every metric of its log; {} for an unfinished run, which gets no error.
    """
    path = workdir / NAME
    if not path.exists():
        return {}
    try:
        written = json.loads(read_text(path))
        predicted = written["prediction"]
        metric = written["metric"]
        metrics = {"prediction/loss": float(predicted["loss"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(str(path), "a prediction as `txjax scaling predict` writes it", hint=str(error)) from None
    for name in ("interval", "interval_of_a_run"):
        if name in predicted:
            low, high = predicted[name]
            metrics |= {f"prediction/{name}_low": float(low), f"prediction/{name}_high": float(high)}
    if isinstance(last.get(metric), float | int):
        metrics["prediction/relative_error"] = metrics["prediction/loss"] / float(last[metric]) - 1
    return metrics
