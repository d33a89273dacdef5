"""A tracker of your own.

A line for each row, in a file of the workdir.
"""

import dataclasses
from pathlib import Path

from txjax.log import Sink, Tracker


@dataclasses.dataclass
class Lines(Tracker):
    """Step and loss of each row."""

    file: str = "losses.txt"

    def open(self, workdir, start_step):
        return LinesSink(workdir / self.file, start_step)


class LinesSink(Sink):
    """The open file, whose rows begin after the last one of an earlier start."""

    def __init__(self, path, start_step):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("".join(f"{line}\n" for line in lines if int(line.split()[0]) <= start_step))

    def write(self, row, files):
        with self.path.open("a") as file:
            file.write(f"{row['step']} {row['train/loss']}\n")


sink = Lines().open(Path(), start_step=0)
sink.write({"step": 10, "train/loss": 2.5}, {})
sink.write({"step": 20, "train/loss": 2.0}, {})
Lines().open(Path(), start_step=10)  # a run that resumes at step 10 computes the second row again
print(Path("losses.txt").read_text().split())  # ['10', '2.5']
