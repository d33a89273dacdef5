"""Draws BLEU over the length of the source, from the translations that the runs wrote; prints it, too."""

import statistics
import sys
from pathlib import Path

import numpy as np
from arms import Run, arms
from matplotlib.figure import Figure
from sacrebleu.metrics import BLEU

from txjax.log import read_metrics
from txjax.report.theme import LIGHT, style_axes

BINS = 5


def translations(run: Run) -> list[tuple[str, str, str]]:
    """Source, target and output of each pair of the test set, as the evaluation wrote them at the last step."""
    text = (run.workdir / "samples" / "test" / f"{run.experiment.num_steps}.txt").read_text(encoding="utf-8")
    found = []
    for part in text.split("\n\n")[1:]:
        source, target, output = (line.partition(": ")[2] for line in part.rstrip("\n").split("\n"))
        found.append((source, target, output))
    return found


def bleu(pairs: list[tuple[str, str, str]]) -> float:
    return float(BLEU().corpus_score([output for *_, output in pairs], [[target for _, target, _ in pairs]]).score)


def main(sweep: Path) -> None:
    figure = Figure(figsize=(6.4, 4.0), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, LIGHT, "multi30k, English to German, test")
    for i, (arm, runs) in enumerate(sorted(arms(sweep).items())):
        written = [translations(run) for run in runs]
        words = np.array([len(source.split()) for source, *_ in written[0]])
        edges = np.unique(np.quantile(words, np.linspace(0, 1, BINS + 1)).astype(int))
        edges[-1] += 1
        rows = []
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            inside = np.flatnonzero((words >= low) & (words < high))
            scores = [bleu([pairs[n] for n in inside]) for pairs in written]
            error = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
            rows.append((float(words[inside].mean()), statistics.mean(scores), error))
        axes.errorbar(*zip(*rows, strict=True), color=LIGHT.lines[i], marker="o", ms=4, lw=1.6, label=arm)
        whole = [bleu(pairs) for pairs in written]
        losses = [
            [row["eval/valid/loss"] for row in read_metrics(run.workdir) if "eval/valid/loss" in row][-1]
            for run in runs
        ]
        print(
            arm,
            f"{runs[0].flops:.3g} FLOPs",
            f"validation loss {statistics.mean(losses):.3f}",
            f"BLEU {statistics.mean(whole):.1f}",
            *(f"{words:.1f} words: {mean:.1f} ± {error:.1f}" for words, mean, error in rows),
            sep=" | ",
        )
    axes.set_xlabel("words of the source", fontsize=9, color=LIGHT.faint)
    axes.set_ylabel("BLEU", fontsize=9, color=LIGHT.faint)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(Path(__file__).with_name("by_length.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
