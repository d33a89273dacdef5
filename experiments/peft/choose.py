"""Prints the held-out accuracy of each arm at each rate, and writes the best rates to `chosen.json`.

python experiments/peft/choose.py text=runs/peft/text_rates vision=runs/peft/vision_rates
"""

import json
import sys
from pathlib import Path

from arm_runs import arm_runs


def main(folders: dict[str, Path]) -> None:
    path = Path(__file__).with_name("chosen.json")
    best = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for task, folder in folders.items():
        scores: dict[str, dict[float, float]] = {}
        for run in arm_runs(folder):
            scores.setdefault(run.arm, {})[run.rate] = run.score
        rates = sorted({rate for tried in scores.values() for rate in tried})
        print(f"| {task} |", *(f"{rate:g} |" for rate in rates))
        for arm, tried in scores.items():
            print(f"| {arm} |", *(f"{100 * tried[rate]:.1f} |" if rate in tried else "- |" for rate in rates))
        best[task] = {arm: max(tried, key=tried.__getitem__) for arm, tried in scores.items()}
    path.write_text(json.dumps(best, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main({task: Path(folder) for task, _, folder in (word.partition("=") for word in sys.argv[1:])})
