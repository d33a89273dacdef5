"""Runs of Weights & Biases."""

import dataclasses
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.errors import require
from txjax.log.trackers.tracker import Record, Row, Sink, Tracker, config_of, import_library, metrics_of
from txjax.log.trackers.wandb_files import stored_step
from txjax.types import config_field


@dataclasses.dataclass
class WandB(Tracker):
    """A run of Weights & Biases (extra `trackers`), which a resumed run continues.

    W&B keeps every row that it got. So a resumed run sends the rows after the last one that the server has, or, in
    mode "offline", after the last one that is in the files for `wandb sync`.

    Attributes:
      name: the run's name. If None, the workdir's name.
    """

    project: str = "txjax"
    name: str | None = None
    mode: str = config_field("online", choices=("online", "offline", "disabled"))

    def check(self) -> None:
        require("wandb", "wandb", "config.trackers", extra="trackers")

    def open(self, workdir: Path, start_step: int) -> Sink:
        wandb: Any = import_library("wandb")
        identity = Record(workdir, "wandb").identity()
        stored = stored_step(workdir, identity)
        run = wandb.init(
            project=self.project,
            name=self.name or workdir.resolve().name,
            mode=self.mode,
            id=identity,
            resume="allow",
            dir=str(workdir),
            config=config_of(workdir),
        )
        return _WandBRun(wandb, run, run.starting_step - 1 if run.resumed else stored)


@dataclasses.dataclass
class _WandBRun(Sink):
    wandb: Any
    run: Any
    last_step: int

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        media = {name: self._media(path) for name, path in files.items()}
        self.run.log(metrics_of(row) | media, step=row["step"])

    def _media(self, path: Path) -> Any:
        if path.suffix == ".png":
            return self.wandb.Image(str(path))
        return self.wandb.Html(f"<pre>{html.escape(path.read_text(encoding='utf-8'))}</pre>")

    def close(self) -> None:
        self.run.finish()
