"""Runs of an MLflow server."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.errors import UserError, require
from txjax.log.trackers.tracker import Record, Row, Sink, Tracker, config_of, import_library, metrics_of

LAST_STEP = "txjax.last_step"  # a tag of the run


@dataclasses.dataclass
class MLflow(Tracker):
    """A run of an MLflow server (extra `trackers`), which a resumed run continues.

    The step of the last row is a tag of the run, which the server gets in the request of the row. Pictures and texts of
    evaluations are artifacts, `pictures/test/200.png`.

    Attributes:
      server: its address, such as `http://host:5000`. If None, the variable MLFLOW_TRACKING_URI has it.
      experiment: the name of the experiment that the run is part of.
      name: the run's name. If None, the workdir's name.
    """

    server: str | None = None
    experiment: str = "txjax"
    name: str | None = None

    def check(self) -> None:
        require("mlflow", "mlflow-skinny", "config.trackers", extra="trackers")
        if not self.server and not os.environ.get("MLFLOW_TRACKING_URI"):
            hint = "start one by `mlflow server`, or set MLFLOW_TRACKING_URI"
            raise UserError("config.trackers", "MLflow(server='http://HOST:PORT')", self.server, hint=hint)

    def open(self, workdir: Path, start_step: int) -> Sink:
        client = import_library("mlflow").MlflowClient(tracking_uri=self.server)
        record = Record(workdir, "mlflow")
        if "run" not in record.values:
            record.update(run=self._create_run(client, workdir))
        run = client.get_run(record.values["run"])
        if run.info.status != "RUNNING":
            client.update_run(run.info.run_id, status="RUNNING")
        return _MLflowRun(client, run.info.run_id, int(run.data.tags.get(LAST_STEP, 0)))

    def _create_run(self, client: Any, workdir: Path) -> str:
        experiment = client.get_experiment_by_name(self.experiment)
        identity = experiment.experiment_id if experiment else client.create_experiment(self.experiment)
        run = client.create_run(identity, run_name=self.name or workdir.resolve().name)
        if config := config_of(workdir):
            client.log_dict(run.info.run_id, config, "config.json")
        return run.info.run_id


@dataclasses.dataclass
class _MLflowRun(Sink):
    client: Any
    identity: str
    last_step: int

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        entities = import_library("mlflow.entities")
        for name, path in files.items():
            self.client.log_artifact(self.identity, str(path), name)
        milliseconds = int(1000 * float(row["time"]))
        metrics = [entities.Metric(name, x, milliseconds, row["step"]) for name, x in metrics_of(row).items()]
        self.client.log_batch(self.identity, metrics, tags=[entities.RunTag(LAST_STEP, str(row["step"]))])

    def close(self) -> None:
        self.client.set_terminated(self.identity)
