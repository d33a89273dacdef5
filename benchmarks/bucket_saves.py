"""What a run waits for its saves in a bucket, against the same run in a folder.

    python benchmarks/bucket_saves.py --workdir=s3://bucket/new [--width=384] [--depth=4] [--every=15] [--rounds=5]

The two runs alternate: `txjax train` of a decoder of bytes, four saves each. The wait is `save` of
`goodput.json`: all seconds in which no step was computed because of a save, the last one included. Prints both medians
and their ratio.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from txjax.log.terminal_table import table
from txjax.train.bucket import fetch_workdir

SAVES = 4


def train(workdir: Path | str, width: int, depth: int, every: int) -> None:
    """Trains a new run."""
    sizes = [f"--config.model.width={width}", f"--config.model.depth={depth}", "--config.batch_size=4"]
    saves = [f"--until={SAVES * every}", f"--config.checkpoint.every_steps={every}", "--config.checkpoint.best=None"]
    words = ["train", "--config=configs/text/gpt_tiny.py", f"--workdir={workdir}", *sizes, *saves]
    subprocess.run([sys.executable, "-m", "txjax", *words], check=True, capture_output=True)


def waited(folder: Path) -> float:
    """The seconds that a run waited for its saves."""
    return json.loads((folder / "goodput.json").read_text(encoding="utf-8"))["save"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--every", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    waits: dict[str, list[float]] = {"a folder": [], "a bucket": []}
    with tempfile.TemporaryDirectory() as parent:
        for number in range(flags.rounds):
            here, copy, url = Path(parent, f"{number}"), Path(parent, f"copy-{number}"), f"{flags.workdir}/{number}"
            train(here, flags.width, flags.depth, flags.every)
            train(url, flags.width, flags.depth, flags.every)
            fetch_workdir("--workdir", url, copy)
            waits["a folder"].append(waited(here))
            waits["a bucket"].append(waited(copy))
        size = (
            sum(path.stat().st_size for path in here.glob(f"checkpoints/{SAVES * flags.every}/**/*") if path.is_file())
            / 1e6
        )
    medians = {place: statistics.median(values) for place, values in waits.items()}
    ratio = medians["a bucket"] / medians["a folder"]
    rows = [[place, f"{medians[place]:.2f}", f"{min(v):.2f} to {max(v):.2f}"] for place, v in waits.items()]
    table(f"{SAVES} saves of {size:.0f} MB; ratio {ratio:.2f}", ["workdir", "s", "range"], rows)


if __name__ == "__main__":
    main()
