"""The runs of the study by arm, as both scripts read them."""

import collections
from pathlib import Path
from typing import NamedTuple

from txjax.experiment import Experiment, with_default_eval_data
from txjax.sweep.sweep_folder import Folder
from txjax.train.run.workdir import read_config


class Run(NamedTuple):
    """A finished run: its folder, its experiment, and the FLOPs of all its updates."""

    workdir: Path
    experiment: Experiment
    flops: int


def arms(sweep: Path) -> dict[str, list[Run]]:
    """The runs by model and number of updates, one for each seed."""
    folder = Folder(sweep)
    found: dict[str, list[Run]] = collections.defaultdict(list)
    for point in folder.points():
        workdir = folder.run(point.name)
        experiment = with_default_eval_data(read_config(workdir))
        kind = {"EncoderDecoder": "Transformer", "RecurrentEncoderDecoder": "recurrent"}[
            type(experiment.model).__name__
        ]
        found[f"{kind}, {experiment.num_steps:,} updates"].append(Run(workdir, experiment, point.flops))
    return dict(found)
