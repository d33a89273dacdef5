"""Runs of trackio, whose dashboard needs no server."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.errors import require
from txjax.log.trackers.tracker import Record, Row, Sink, Tracker, config_of, import_library, metrics_of


@dataclasses.dataclass
class Trackio(Tracker):
    """A run of trackio (extra `trackers`), which a resumed run continues; `trackio show` opens the dashboard.

    It is stored on this machine, in the folder of the variable TRACKIO_DIR, unless TRACKIO_SPACE_ID or
    TRACKIO_SERVER_URL name a Space of Hugging Face or a server.

    Attributes:
      name: the run's name. If None, the workdir's name and a part of a drawn number, since trackio knows a run by its
        name.
    """

    project: str = "txjax"
    name: str | None = None

    def check(self) -> None:
        require("trackio", "trackio", "config.trackers", extra="trackers")

    def open(self, workdir: Path, start_step: int) -> Sink:
        trackio: Any = import_library("trackio")
        run = trackio.init(
            project=self.project,
            name=self.name or f"{workdir.resolve().name}-{Record(workdir, 'trackio').identity()[:4]}",
            resume="allow",
            config=config_of(workdir),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return _TrackioRun(trackio, run)


class _TrackioRun(Sink):
    def __init__(self, trackio: Any, run: Any):
        self.trackio = trackio
        self.run = run
        self.last_step = run._next_step - 1  # one after the last that is stored; there is no public name for it

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        media = {name: self._media(path) for name, path in files.items()}
        self.run.log(metrics_of(row) | media, step=row["step"])

    def _media(self, path: Path) -> Any:
        if path.suffix == ".png":
            return self.trackio.Image(str(path))
        return self.trackio.Markdown(f"```\n{path.read_text(encoding='utf-8')}\n```")

    def close(self) -> None:
        self.run.finish()
