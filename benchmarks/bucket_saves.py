"""What a run waits for its saves in a bucket, against the same run in a folder.

    python benchmarks/bucket_saves.py --workdir=s3://bucket/new [--width=384] [--depth=4] [--every=25] [--rounds=10]

A store on this machine should take none of the run's processor time, like one elsewhere: start it with `nice -n 19`.
The two runs alternate, and which is first, too: `txjax train` of a decoder of bytes, eight saves each. Prints the
medians of three figures, their ratios, and the medians of the ratios of each two runs, which are adjacent in time:

- `loop`: `goodput/save_s` of the last row of the log, what the loop waited for all saves but the last: copies from the
  devices, and a save that was not over when the next one began.
- `saves`: `save` of `goodput.json`, the same with the last save, until it is on the disk.
- `end`: seconds from the last step to the end of the process: the last save, in a bucket its upload, and what a run
  writes when it ends. It is there once, however many steps and saves there are.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from txjax.log import read_metrics
from txjax.log.terminal_table import table
from txjax.train.bucket import fetch_workdir

SAVES = 8


class Waits(NamedTuple):
    """What a run waited, in seconds."""

    loop: float
    saves: float
    end: float


def train(workdir: Path | str, folder: Path, width: int, depth: int, every: int) -> Waits:
    """Trains a new run, whose files are in `folder` after it."""
    sizes = [f"--config.model.width={width}", f"--config.model.depth={depth}", "--config.batch_size=4"]
    saves = [f"--until={SAVES * every}", f"--config.checkpoint.every_steps={every}", "--config.checkpoint.best=None"]
    words = ["train", "--config=configs/text/gpt_tiny.py", f"--workdir={workdir}", *sizes, *saves]
    subprocess.run([sys.executable, "-m", "txjax", *words], check=True, capture_output=True)
    ended = time.time()
    if isinstance(workdir, str):
        fetch_workdir("--workdir", workdir, folder)
    goodput = json.loads((folder / "goodput.json").read_text(encoding="utf-8"))
    last = {name: float(value) for name, value in read_metrics(folder)[-1].items()}
    return Waits(last["goodput/save_s"], goodput["save"], ended - last["time"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=10)
    flags = parser.parse_args()
    sizes = (flags.width, flags.depth, flags.every)
    waits: dict[str, list[Waits]] = {"a folder": [], "a bucket": []}
    with tempfile.TemporaryDirectory() as parent:
        for number in range(flags.rounds):
            here, copy = Path(parent, f"{number}"), Path(parent, f"copy-{number}")
            runs = {"a folder": (here, here), "a bucket": (f"{flags.workdir}/{number}", copy)}
            for place in sorted(runs, reverse=number % 2 == 0):
                waits[place].append(train(*runs[place], *sizes))
        files = [path for path in here.glob(f"checkpoints/{SAVES * flags.every}/**/*") if path.is_file()]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
    rows = []
    for name in Waits._fields:
        seconds = {place: [getattr(wait, name) for wait in values] for place, values in waits.items()}
        medians = {place: statistics.median(values) for place, values in seconds.items()}
        ranges = [f"{min(values):.2f} to {max(values):.2f}" for values in seconds.values()]
        cells = [f"{medians[place]:.2f} ({range_})" for place, range_ in zip(medians, ranges, strict=True)]
        pairs = [there / here for here, there in zip(*seconds.values(), strict=True)]
        rows.append(
            [name, *cells, f"{medians['a bucket'] / medians['a folder']:.2f}", f"{statistics.median(pairs):.2f}"]
        )
    title = f"{SAVES} saves of {megabytes:.0f} MB, {flags.rounds} rounds: seconds, medians (ranges)"
    table(title, ["", *waits, "ratio", "ratio by pairs"], rows)


if __name__ == "__main__":
    main()
