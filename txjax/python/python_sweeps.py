"""Sweeps and scaling laws from Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.errors import RunError, UserError
from txjax.python.python_configs import typed_fields
from txjax.python.python_runs import Run, open_run

if TYPE_CHECKING:
    from txjax.scaling.study import Study

CONFIG = '''"""The points of a sweep that Python started, beside this file."""

import json
from pathlib import Path

import txjax
from txjax.experiment import Experiment


def get_config() -> Experiment:
    return txjax.load_config({source!r})


def sweep() -> list[dict]:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
'''


def fit_sweep(
    config: str,
    workdir: str | Path,
    points: Sequence[Mapping[str, Any]] | None = None,
    fields: Mapping[str, Any] | None = None,
    *,
    jobs: int = 1,
) -> dict[str, Run]:
    """Trains every point of a sweep, each in a process of its own, as `txjax sweep` does; the same call resumes it.

        points = txjax.sweep.grid({"optimizer.peak_lr": [1e-3, 3e-3], "seed": [0, 1]})
        runs = txjax.fit_sweep("txjax:text/gpt_tiny", "runs/rates", points, {"num_steps": 500})

    Args:
      config: `FILE.py`, `FILE.py:variant` or `txjax:text/gpt_tiny`.
      workdir: the sweep's folder, which gets a folder for each point.
      points: values by the names of fields. If None, the points of the file's `sweep()`.
      fields: values for all points, as in `load_config`.
      jobs: points that train at the same time.

    Returns:
      The runs by the names of their points, in the order of the points; then earlier ones of the folder.

    Raises:
      UserError: a point is invalid, before any trains.
      RunError: a point failed; the others are trained, and the message says where its output is.
    """
    from txjax.commands import sweep
    from txjax.sweep.sweep_folder import Folder

    folder = Path(workdir)
    source = config if points is None else _write_points(config, folder, points)
    words = [f"--config={source}", f"--workdir={folder}", f"--jobs={jobs}", *typed_fields(fields or {})]
    if code := sweep.run(words):
        raise RunError(f"the sweep in {folder} ended with code {code}: the lines above name what failed")
    names = [point.name for point in Folder(folder).points()]
    return {name: open_run(folder / name) for name in names if (folder / name / "config.json").exists()}


def fit_law(data: str | Path, form: str = "parametric", **options: Any) -> Study:
    """Fits a scaling law to a table or to the runs of a folder: `txjax scaling fit`.

        law = txjax.fit_law("runs/study")
        law.fitted.parameters, law.intervals(), law.predict({"params": 1e9, "tokens": 2e10})

    Args:
      data: a CSV or JSONL file, or a folder of runs, such as a sweep's.
      form: parametric, isoflop, envelope, kaplan, overtraining, ...
      options: the other flags of the command, such as `where="depth=2"`, `bootstrap=0`.

    Returns:
      The law with the intervals of its bootstrap, its errors at the largest runs, and its warnings.

    Raises:
      UserError: the rows do not determine the law.
    """
    from txjax.cli.parser import Parser
    from txjax.cli.scaling_flags import add_fit
    from txjax.cli.scaling_flags import fit_law as fit

    parser = Parser("scaling fit", "Fits a scaling law.")
    add_fit(parser)
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]
    return fit(parser.parse_args([f"--data={data}", f"--form={form}", *words]))


def _write_points(config: str, folder: Path, points: Sequence[Mapping[str, Any]]) -> str:
    """The config file of these points, in the sweep's folder."""
    from txjax.io.files import replace_text

    try:
        text = json.dumps([dict(point) for point in points], indent=1)
    except TypeError as error:
        hint = "components are points of the sweep() of a config file"
        raise UserError("points", "dicts of numbers, texts, booleans, lists and None", str(error), hint=hint) from None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "points.py"
    source = config if config.startswith("txjax:") else str(Path(config).resolve())
    replace_text(path.with_suffix(".json"), text)
    replace_text(path, CONFIG.format(source=source))
    return str(path)
