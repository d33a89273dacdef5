"""The HTML page of runs: curves, evaluation outputs, scores, configs and versions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.log import Value
from txjax.numbers import round_measured
from txjax.report.charts import chart_data
from txjax.report.gallery import gallery, inspections
from txjax.report.panels import run_panels
from txjax.report.rate_range import readings
from txjax.report.render import render
from txjax.report.runs import Run
from txjax.report.theme import DARK, LIGHT
from txjax.scaling import preregistration
from txjax.train.run import goodput
from txjax.tree import flatten, from_json

_FOLDED = ("perf/", "goodput")  # metrics of the machine, not of the model: rounded and collapsed


def page(runs: Sequence[Run], light: bytes, dark: bytes, folder: Path) -> str:
    """The HTML page: curves, evaluation outputs, inspections, scores, configs, versions.

    Args:
      light: the curves as a PNG, for a reader without scripts.
      dark: the same on a dark screen.
      folder: where the page will be, since the pages of inspections are linked.
    """
    configs = [flatten(run.config) if run.config else {} for run in runs]
    made_by = [flatten(_made_by(run)) for run in runs]
    tables = {"Differences of the configs": _differing(configs)} if len(runs) > 1 else {}
    tables |= {"Code, versions and devices": made_by}
    tables |= {"Config": configs} if len(runs) == 1 else {}
    scores_by_run = [scores(run) for run in runs]
    return render(
        "run.html",
        " · ".join(run.name for run in runs),
        _subtitle(runs),
        runs=runs,
        light=light,
        dark=dark,
        charts=chart_data(run_panels(runs, LIGHT), run_panels(runs, DARK)),
        gallery=gallery(runs),
        inspections=inspections(runs, folder),
        scores=[{name: x for name, x in column.items() if not name.startswith(_FOLDED)} for column in scores_by_run],
        folded=[
            {name: round_measured(x) for name, x in column.items() if name.startswith(_FOLDED)}
            for column in scores_by_run
        ],
        tables=tables,
    )


def scores(run: Run) -> dict[str, Value]:
    """A run's step, last value of every metric, best eval losses, goodput seconds, registered prediction.

    Of a learning rate range test also its reading.
    """
    best = {}
    for key in run.metrics():
        steps, values = run.series(key)
        if key.startswith("eval/") and key.endswith("/loss") and values:
            best[f"best/{key}"] = min(values)
            best[f"best/{key.removesuffix('loss')}step"] = steps[values.index(min(values))]
    sizes = {key: run.manifest[key] for key in ("parameters", "flops_per_step") if key in run.manifest}
    last = {key: value for key, value in run.last().items() if key != "train/batch_hash"}
    seconds = goodput.goodput_metrics(goodput.read(run.workdir))  # newer than the log: includes time after its last row
    step = int(run.rows[-1]["step"]) if run.rows else 0
    planned = run.config.get("num_steps")
    over = step >= (planned if isinstance(planned, int) else 0)
    predicted = preregistration.score(run.workdir, last if over else {})
    return {"step": step} | _stop_reason(run) | readings(run) | last | best | seconds | sizes | predicted


def _stop_reason(run: Run) -> dict[str, Value]:
    """Why the run ended before its last step, if it did."""
    stop = run.config.get("stop")
    reason = from_json(stop).reason(run.rows) if stop else None
    return {} if reason is None else {"stopped": reason}


def _subtitle(runs: Sequence[Run]) -> str:
    models = [str(flatten(run.config).get("model.class", "")).rpartition(".")[2] for run in runs]
    dates = [str(run.manifest.get("created", ""))[:10] for run in runs]
    return " · ".join(dict.fromkeys(word for word in (*models, *dates) if word))


def _made_by(run: Run) -> dict[str, Any]:
    return {key: run.manifest[key] for key in ("git", "python", "versions", "devices", "data") if key in run.manifest}


def _differing(columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for column in columns for name in column)
    differing = [n for n in names if any(c.get(n, ...) != columns[0].get(n, ...) for c in columns)]
    return [{name: column[name] for name in differing if name in column} for column in columns]
