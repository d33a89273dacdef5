"""Reads runs from their workdirs: metrics, config and manifest."""

import dataclasses
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.errors import UserError, join_names
from txjax.io.files import leaves
from txjax.log import Row, Value, read_metrics
from txjax.tree import read_json

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Run:
    """One run.

    Attributes:
      name: the shortest suffix of the workdir's path that is unique among the runs.
      rows: of metrics.jsonl, by increasing step.
      config: config.json, {} if there is none.
      manifest: manifest.json, {} if there is none.
    """

    name: str
    workdir: Path
    rows: list[Row]
    config: dict[str, Any]
    manifest: dict[str, Any]

    def metrics(self) -> list[str]:
        """The names of all metrics, in order of appearance."""
        return [key for key in dict.fromkeys(k for row in self.rows for k in row) if key not in ("step", "time")]

    def series(self, key: str) -> tuple[list[int], list[float]]:
        """The steps and the finite values of one metric."""
        finite = [(step, value) for step, value in self._points(key) if math.isfinite(value)]
        return [step for step, _ in finite], [value for _, value in finite]

    def gaps(self, key: str) -> list[int]:
        """The steps at which one metric isn't finite."""
        return [step for step, value in self._points(key) if not math.isfinite(value)]

    def _points(self, key: str) -> list[tuple[int, float]]:
        points = [(int(row["step"]), row[key]) for row in self.rows if key in row]
        return [(step, float(value)) for step, value in points if not isinstance(value, str)]

    def last(self) -> dict[str, Value]:
        """The last value of every metric."""
        return {key: next(row[key] for row in reversed(self.rows) if key in row) for key in self.metrics()}

    def outputs(self, kind: str) -> dict[str, dict[int, Path]]:
        """The files `KIND/NAME/STEP.*` of the run by name and step, increasing, up to the last row of its log.

        Links out of the workdir are skipped with a warning: they could expose any file of this machine.
        """
        end = int(self.rows[-1]["step"]) if self.rows else 0
        by_folder = {}
        foreign = []
        for folder in sorted((self.workdir / kind).glob("*/")):
            files = {int(path.stem): path for path in folder.iterdir() if path.stem.isdecimal() and path.is_file()}
            foreign += [path for path in files.values() if leaves(path, self.workdir)]
            kept = (step for step in sorted(files) if step <= end and files[step] not in foreign)
            by_folder[folder.name] = {step: files[step] for step in kept}
        if foreign:
            logger.warning("skipped, since links lead out of %s: %s", self.workdir, join_names(list(map(str, foreign))))
        return {name: files for name, files in by_folder.items() if files}

    def inspection(self) -> tuple[int, Path] | None:
        """The largest step that `txjax inspect` drew, and the folder of its pictures. None without one."""
        folders = [path.parent for path in (self.workdir / "inspect").glob("step_*/index.html")]
        steps = {int(path.name.removeprefix("step_")): path for path in folders if not leaves(path, self.workdir)}
        return max(steps.items()) if steps else None


def read_runs(workdirs: Sequence[Path | str]) -> list[Run]:
    """The runs in these folders.

    Raises:
      UserError: a folder has no run, is given twice, or one of its JSON files is a link out of it.
    """
    paths = [Path(workdir).resolve() for workdir in workdirs]
    for file in (file for path in paths for file in path.glob("*.json*")):
        check_inside(str(file), file, file.parent)
    for path in paths:
        if paths.count(path) > 1:
            raise UserError("RUN", "different runs", str(path), hint="it is given twice")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return [
        Run(
            name="/".join(path.parts[-depth:]),
            workdir=path,
            rows=read_metrics(path),
            config=read_json(path / "config.json") if (path / "config.json").exists() else {},
            manifest=read_json(path / "manifest.json") if (path / "manifest.json").exists() else {},
        )
        for path in paths
    ]


def check_inside(field: str, path: Path, folder: Path) -> None:
    """Raises UserError if a path in a folder resolves, by links, to outside of it."""
    if leaves(path, folder):
        hint = "a link that leaves the folder is not followed"
        raise UserError(field, f"to stay in {folder}", str(path.resolve()), hint=hint)
