"""Members of a population are prepared one by one; what they share is made once."""

import dataclasses
from pathlib import Path

from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import with_default_eval_data
from txjax.objectives import NextToken
from txjax.train.population.members import prepare_members

from helpers import tiny_experiments


def test_members_share_a_layout_and_equal_data_are_opened_once(tmp_path, monkeypatch):
    opened, traced = [], []
    open_data, init = NextTokenWindows.open, NextToken.init

    def opening(self):
        opened.append(self.split)
        return open_data(self)

    def tracing(self, *args):
        traced.append(args)
        return init(self, *args)

    monkeypatch.setattr(NextTokenWindows, "open", opening)
    monkeypatch.setattr(NextToken, "init", tracing)
    evals = {"valid": Evaluation(data=NextTokenWindows(split="validation", length=16))}
    points = [with_default_eval_data(tiny_experiments.decoder(seed=seed, evals=evals)) for seed in range(4)]
    half = dataclasses.replace(points[0].data, split="train[:50%]")
    points[2:] = [dataclasses.replace(point, data=half) for point in points[2:]]
    workdirs = [tmp_path / str(seed) for seed in range(4)]
    runs = prepare_members(points, workdirs, allow_config_change=True)
    assert opened == ["train", "validation", "train[:50%]"] and len(traced) == 1
    assert [run.experiment.seed for run in runs] == [0, 1, 2, 3] and [run.workdir for run in runs] == workdirs
    assert all(run.layout is runs[0].layout and run.evals is runs[0].evals for run in runs)
    assert [runs.index(next(other for other in runs if other.source is run.source)) for run in runs] == [0, 0, 2, 2]
    assert [run.fingerprints["train"] for run in runs] == [run.source.fingerprint for run in runs]
    assert all(run.allow_config_change for run in runs) and not any(map(Path.exists, workdirs))
