"""Do English labels serve German texts? Trains every run of the study in turn, and reports the results.

    python experiments/cross_lingual/compare.py --workdir=runs/cross_lingual

The data must lie prepared in TFDS_DATA_DIR: `multi30k/en_de`, `ud_pos/en`, `ud_pos/de`. A finished run is skipped; an
interrupted one resumes. `--report` trains nothing and reads the existing runs.
"""

import argparse
import json
import sys
from pathlib import Path

from txjax.log.terminal_table import table

sys.path.append(str(Path(__file__).parents[1] / "transfer"))

from study import Arm, folder, last, mean_and_error, run

CONFIG = "text/xlm_tiny.py"
ARMS = {
    "with translations": Arm(f"{CONFIG}:tlm"),
    "without translations": Arm(f"{CONFIG}:mlm"),
    "tagger from translations": Arm(f"{CONFIG}:tagger", "with translations"),
    "tagger from single sentences": Arm(f"{CONFIG}:tagger", "without translations"),
    "tagger from scratch": Arm(f"{CONFIG}:tagger"),
}
SHOWN = {
    "German words, no German label": ("tagger", "eval/de/accuracy"),
    "English words": ("tagger", "eval/en/accuracy"),
    "translations found, en to de": ("with", "eval/retrieval/accuracy"),
    "translations found, de to en": ("with", "eval/retrieval/reverse_accuracy"),
    "masked words, translation visible": ("with", "eval/pairs/accuracy"),
    "masked English words": ("with", "eval/en/accuracy"),
    "masked German words": ("with", "eval/de/accuracy"),
}


def report(workdir: Path, seeds: int) -> dict[str, dict[str, list[float]]]:
    """The last step's scores by name, arm and seed; prints them with their means and standard errors."""
    found: dict[str, dict[str, list[float]]] = {}
    for title, (kind, metric) in SHOWN.items():
        arms = [name for name in ARMS if name.startswith(kind)]
        found[title] = {name: [last(folder(workdir, name, seed), metric) for seed in range(seeds)] for name in arms}
        rows = [
            [name, *(f"{v:.1%}" for v in values), mean_and_error(values, False)]
            for name, values in found[title].items()
        ]
        table(title, ["", *(f"seed {seed}" for seed in range(seeds)), "mean ± standard error"], rows)
    (workdir / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="only read the runs that are there")
    flags = parser.parse_args()
    if not flags.report:
        run(flags.workdir, ARMS, flags.seeds)
    report(flags.workdir, flags.seeds)


if __name__ == "__main__":
    main()
