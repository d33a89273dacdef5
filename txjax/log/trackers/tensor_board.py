"""TensorBoard's event files in the workdir."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.log.trackers.tracker import Record, Row, Sink, Tracker, import_library, metrics_of


@dataclasses.dataclass
class TensorBoard(Tracker):
    """Event files in `workdir/tensorboard`, with the pictures and texts of evaluations."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        library = import_library("tensorboardX")
        logging.getLogger("tensorboardX").setLevel(logging.ERROR)  # it warns of each NaN, which the log has anyway
        record = Record(workdir, "tensorboard")
        last_step = min(record.last_step, start_step)
        events_exist = (workdir / "tensorboard").exists()
        writer = library.SummaryWriter(str(workdir / "tensorboard"), purge_step=last_step + 1 if events_exist else 0)
        return _EventFile(writer, record, last_step)


@dataclasses.dataclass
class _EventFile(Sink):
    writer: Any
    record: Record
    last_step: int

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        step = row["step"]
        for name, value in metrics_of(row).items():
            self.writer.add_scalar(name, value, step, walltime=row["time"])
        for name, path in files.items():
            if path.suffix == ".png":
                self.writer.file_writer.add_summary(_picture(name, path.read_bytes()), step)
            else:
                self.writer.add_text(name, _preformatted(path.read_text(encoding="utf-8")), step)
        self.last_step = int(step)

    def flush(self) -> None:
        self.writer.flush()
        self.record.update(step=self.last_step)

    def close(self) -> None:
        self.writer.close()


def _picture(name: str, png: bytes) -> Any:
    """The event of a PNG file, as it is."""
    summaries = import_library("tensorboardX.proto.summary_pb2")
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))  # of the header, IHDR
    image = summaries.Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=png)
    return summaries.Summary(value=[summaries.Summary.Value(tag=name, image=image)])


def _preformatted(text: str) -> str:
    """Markdown of a text whose lines and columns stay as they are."""
    return "".join(f"    {line}\n" for line in text.splitlines())
