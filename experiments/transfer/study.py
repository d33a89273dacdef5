"""Does pretraining help where labels are few? Trains every run of the study in turn, and reports the results.

    python experiments/transfer/study.py vision --workdir=runs/transfer/vision
    python experiments/transfer/study.py text --workdir=runs/transfer/text

The data must lie prepared in TFDS_DATA_DIR: `fashion_mnist` for vision, `banking77` for text. A finished run is
skipped; an interrupted one resumes. `--report` trains nothing and reads the existing runs.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from txjax.log import read_metrics
from txjax.log.terminal_table import table

CONFIGS = Path(__file__).parents[2] / "configs"


class Arm(NamedTuple):
    """One way to train, at every seed.

    Attributes:
      config: its file, and its variant.
      start: the arm whose run of the same seed it starts from.
      flags: of every run; {seed} stands for the seed.
    """

    config: str
    start: str | None = None
    flags: tuple[str, ...] = ()


SUBSET = ("--config.data.subset.seed={seed}",)
STUDIES: dict[str, dict[str, Arm]] = {
    "vision": {
        "pretrained": Arm("vision/mae_fashion.py"),
        "from scratch": Arm("vision/vit_fashion.py", None, SUBSET),
        "fine-tuned": Arm("vision/vit_fashion.py", "pretrained", SUBSET),
        "linear probe": Arm("vision/vit_fashion.py:probe", "pretrained", SUBSET),
    },
    "text": {
        "pretrained": Arm("text/mlm_sentences.py"),
        "from scratch": Arm("text/bert_sentences.py", None, SUBSET),
        "fine-tuned": Arm("text/bert_sentences.py", "pretrained", SUBSET),
    },
}


def folder(workdir: Path, arm: str, seed: int) -> Path:
    return workdir / f"{arm.replace(' ', '_')}_{seed}"


def run(workdir: Path, arms: dict[str, Arm], seeds: int) -> None:
    """Trains all runs that are not finished."""
    for seed in range(seeds):
        for name, arm in arms.items():
            words = ["train", f"--config={CONFIGS / arm.config}", f"--workdir={folder(workdir, name, seed)}"]
            words += [f"--config.seed={seed}", *(flag.format(seed=seed) for flag in arm.flags)]
            if arm.start:
                words.append(f"--config.init_from={folder(workdir, arm.start, seed)}")
            print("txjax", *words, flush=True)
            subprocess.run([sys.executable, "-m", "txjax", *words], check=True)


def last(path: Path, key: str) -> float:
    """The newest value of a metric."""
    return float([row[key] for row in read_metrics(path) if key in row][-1])


def report(workdir: Path, arms: dict[str, Arm], seeds: int) -> dict[str, list[float]]:
    """The last step's accuracy on the test set, by arm and seed; prints it with its mean and standard error."""
    found, rows = {}, []
    for name in arms:
        key = "eval/test/loss" if name == "pretrained" else "eval/test/accuracy"
        values = [last(folder(workdir, name, seed), key) for seed in range(seeds)]
        shown = [f"{value:.3f}" if name == "pretrained" else f"{value:.1%}" for value in values]
        found[name] = values
        rows.append([name, *shown, mean_and_error(values, name == "pretrained")])
    both = zip(found["fine-tuned"], found["from scratch"], strict=True)
    gains = [tuned - scratch for tuned, scratch in both]
    rows.append(["fine-tuned less scratch", *(f"{gain:+.1%}" for gain in gains), mean_and_error(gains, False)])
    table("test set", ["", *(f"seed {seed}" for seed in range(seeds)), "mean ± standard error"], rows)
    (workdir / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def mean_and_error(values: list[float], loss: bool) -> str:
    """Mean ± standard error of the mean."""
    mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.3f} ± {error:.3f}" if loss else f"{100 * mean:.1f} ± {100 * error:.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="only read the runs that are there")
    flags = parser.parse_args()
    if not flags.report:
        run(flags.workdir, STUDIES[flags.study], flags.seeds)
    report(flags.workdir, STUDIES[flags.study], flags.seeds)


if __name__ == "__main__":
    main()
