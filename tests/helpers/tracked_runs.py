"""What trackers have of a run, read back with their own libraries: the metrics by step, and the names of files."""

import html
import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from txjax.log.trackers.wandb_files import stored_records

Steps = list[tuple[int, dict[str, float]]]


class Tracked(NamedTuple):
    """What a tracker has.

    Attributes:
      rows: step and metrics, in the order in which they are stored; a step that is stored twice is there twice.
      files: the content of pictures (bytes) and texts by name and step.
    """

    rows: Steps
    files: dict[tuple[str, int], bytes | str]


def tensorboard(workdir: Path) -> Tracked:
    """As TensorBoard reads the event files: what a later start says it writes again is dropped."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    values: list[tuple[int, Any]] = []
    for path in sorted((workdir / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime):
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + size])
            if event.session_log.status == SessionLog.START:
                values = [(step, value) for step, value in values if step < event.step]
            values += [(event.step, value) for value in event.summary.value]
            data = data[12 + size + 4 :]
    files: dict[tuple[str, int], bytes | str] = {}
    rows: dict[tuple[int, int], dict[str, float]] = {}
    for step, value in values:
        name = value.tag.removesuffix("/text_summary")
        if value.HasField("image"):
            files[name, step] = value.image.encoded_image_string
        elif value.HasField("tensor"):
            files[name, step] = b"".join(value.tensor.string_val).decode()
        else:
            times = sum(value.tag in row for (at, _), row in rows.items() if at == step)
            rows.setdefault((step, times), {})[value.tag] = value.simple_value
    return Tracked([(step, row) for (step, _), row in rows.items()], files)


def wandb(workdir: Path) -> Tracked:
    """Of the files that `wandb sync` uploads; all are of one run."""
    rows: Steps = []
    files: dict[tuple[str, int], bytes | str] = {}
    identities = set()
    for path in sorted((workdir / "wandb").glob("offline-run-*/*.wandb")):
        for record in stored_records(path):
            if record.HasField("run"):
                identities.add(record.run.run_id)
            if record.HasField("history"):
                step = record.history.step.num
                items = {tuple(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                rows.append((step, {name: float(value) for (name, *more), value in items.items() if not more}))
                for (name, *more), value in items.items():
                    if more == ["path"]:
                        content = (path.parent / "files" / value).read_bytes()
                        files[name, step] = content if value.endswith(".png") else preformatted(content.decode())
    assert len(identities) == 1
    return Tracked(rows, files)


def preformatted(page: str) -> str:
    """The text of the first <pre> of a page."""
    return html.unescape(page.partition("<pre>")[2].partition("</pre>")[0])


def mlflow(workdir: Path, server: str) -> Tracked:
    """By the server's answers."""
    client = importlib.import_module("mlflow").MlflowClient(tracking_uri=server)
    (experiment,) = client.search_experiments(filter_string="name = 'txjax'")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == workdir.name
    rows: dict[tuple[int, int], dict[str, float]] = {}
    for name in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, name):
            times = sum(name in row for (step, _), row in rows.items() if step == metric.step)
            rows.setdefault((metric.step, times), {})[name] = metric.value
    files: dict[tuple[str, int], bytes | str] = {}
    for kind in ("pictures", "tables"):
        for folder in client.list_artifacts(run.info.run_id, kind):
            for file in client.list_artifacts(run.info.run_id, folder.path):
                path = Path(client.download_artifacts(run.info.run_id, file.path, str(workdir.parent)))
                content = path.read_bytes()
                files[folder.path, int(path.stem)] = content if path.suffix == ".png" else content.decode()
    return Tracked([(step, row) for (step, _), row in rows.items()], files)


def trackio(_: Path) -> Tracked:
    """Of trackio's store on this machine."""
    store = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
    media = importlib.import_module("trackio.utils").MEDIA_DIR
    (run,) = importlib.import_module("trackio").Api().runs("txjax")
    rows: Steps = []
    files: dict[tuple[str, int], bytes | str] = {}
    for log in store.get_logs("txjax", run.name):
        numbers = {
            k: float(v) for k, v in log.items() if isinstance(v, int | float | str) and k not in ("step", "timestamp")
        }
        rows.append((log["step"], numbers))
        for name, value in log.items():
            if isinstance(value, dict):
                if "file_path" in value:
                    files[name, log["step"]] = (media / value["file_path"]).read_bytes()
                else:
                    files[name, log["step"]] = value["_value"].removeprefix("```\n").removesuffix("\n```")
    return Tracked(rows, files)
