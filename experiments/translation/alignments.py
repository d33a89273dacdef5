"""Draws the attention of each arm's first run on a few test pairs, under the true target; prints its mass by arm.

The weights of the recurrent model, and the mean over the heads of the Transformer's last cross-attention.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from arms import Run, arms
from matplotlib.figure import Figure

from txjax import sharding
from txjax.data import Tokenizer, eval_batches
from txjax.report.inspection.attention_maps import attention_maps
from txjax.report.theme import LIGHT
from txjax.train.check import check
from txjax.train.state.restore import load_variables

PAIRS, NEAR, SHOWN = 64, 2, 3  # pairs that are read; positions from the diagonal that count as near; pairs drawn


def maps(run: Run) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The first batch of the test set, and the weights [B L S] of the attention to the source."""
    experiment = run.experiment
    layout = check(experiment)
    with sharding.use_mesh(experiment.mesh):
        variables, _ = load_variables(run.workdir, "last", layout)
        batch = next(iter(eval_batches(experiment.evals["test"].data.open(), batch_size=PAIRS)))
        found = attention_maps(experiment.model, variables, experiment.objective.inputs(experiment.model, batch))
    weights = found["decoder"] if "decoder" in found else found["decoder/layers/block/cross"]
    return batch, np.asarray(weights)[-1].mean(1)


def near_the_diagonal(batch: dict[str, np.ndarray], weights: np.ndarray) -> tuple[float, float]:
    """The share of the weights within `NEAR` positions of the diagonal, and the share that equal weights would have."""
    shares, chance = [], []
    for row, source, target in zip(weights, batch["source_segments"], batch["segments"], strict=True):
        lengths = int((target > 0).sum()), int((source > 0).sum())
        if all(lengths):
            at, key = np.ogrid[: lengths[0], : lengths[1]]
            near = np.abs(at * lengths[1] / lengths[0] - key) <= NEAR
            shares.append((row[: lengths[0], : lengths[1]] * near).sum(1).mean())
            chance.append(near.mean())
    return float(np.mean(shares)), float(np.mean(chance))


def pieces(tokenizer: Tokenizer, ids: np.ndarray, segments: np.ndarray) -> list[str]:
    return [tokenizer.decode([int(i)]).strip() for i, segment in zip(ids, segments, strict=True) if segment]


def draw(axes: Any, experiment: Any, batch: dict[str, np.ndarray], weights: np.ndarray, row: int) -> None:
    """One pair's weights, targets downwards and the source to the right."""
    source_tokenizer, tokenizer = experiment.evals["test"].data.tokenizers()
    source = pieces(source_tokenizer, batch["source_tokens"][row], batch["source_segments"][row])
    target = pieces(tokenizer, batch["targets"][row], batch["segments"][row])
    axes.imshow(weights[row, : len(target), : len(source)], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(target)), target, fontsize=7)
    axes.tick_params(length=0)


def main(sweep: Path) -> None:
    found = sorted(arms(sweep).items())
    figure = Figure(figsize=(4 * SHOWN, 3.8 * len(found)), dpi=110, facecolor=LIGHT.paper, layout="constrained")
    panels = figure.subplots(len(found), SHOWN, squeeze=False)
    for line, (arm, runs) in zip(panels, found, strict=True):
        batch, weights = maps(runs[0])
        share, chance = near_the_diagonal(batch, weights)
        print(f"{arm} | {share:.1%} within {NEAR} positions of the diagonal | {chance:.1%} of equal weights")
        for row, axes in enumerate(line):
            draw(axes, runs[0].experiment, batch, weights, row)
        line[0].set_title(arm, loc="left", fontsize=10, fontweight="bold", color=LIGHT.ink)
    figure.savefig(Path(__file__).with_name("alignments.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
