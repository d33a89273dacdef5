"""A run traces each of its programs once: what its checks trace is what it compiles."""

import collections
import dataclasses

import pytest

from txjax.__main__ import main
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, MeanTokens, Stack
from txjax.optim import AdamW, train_all_but
from txjax.train.check import check
from txjax.types import UserError

from helpers import runs, tiny_experiments

# A model that notes each trace of its call, with the mode of the call.
COUNTED = '''
class Counted(Decoder):
    """A decoder that notes its traces."""

    def __call__(self, *args, **kwargs):
        with open(TRACES, "a") as file:
            print({None: "variables", True: "training", False: "evaluation"}[kwargs.get("train")], file=file)
        return super().__call__(*args, **kwargs)

def get_config'''
# Of the step, and of the forward pass whose FLOPs are counted for another platform.
TRAINING = 2


@pytest.fixture
def counted(tmp_path):
    """The tests' config with a model that notes its traces, and a function that counts and removes the notes."""
    path, notes = tmp_path / "counted.py", tmp_path / "traces.txt"
    text = runs.CONFIG.replace("model=Decoder(", "model=Counted(").replace("\ndef get_config", COUNTED)
    path.write_text(f"TRACES = {str(notes)!r}\n{text}")

    def count():
        counts = dict(collections.Counter(notes.read_text().split()))
        notes.unlink()
        return counts

    return path, count


@pytest.mark.parametrize("flags", [[], ["--config.checkpoint.best=None"]], ids=["named scores", "no named scores"])
def test_a_run_traces_each_program_once(counted, tmp_path, flags):
    """The layout and the first state share the trace of the variables, the names of scores and evaluations theirs."""
    config, count = counted
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]
    assert main([*words, "--until=10"]) == 0
    assert count() == {"variables": 1, "training": TRAINING, "evaluation": 1}
    assert main([*words, "--until=20"]) == 0
    assert count() == {"variables": 1, "training": TRAINING, "evaluation": 1}
    assert len(runs.rows(tmp_path / "run")) == 20


def test_microbatches_add_no_trace(counted, tmp_path):
    config, count = counted
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", "--config.microbatches=2"]
    assert main([*words, "--until=1"]) == 0
    assert count() == {"variables": 1, "training": TRAINING, "evaluation": 1}


def test_a_refused_run_is_traced_once(counted, tmp_path, capsys):
    """An unknown score is found by the trace of the evaluation."""
    config, count = counted
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}"]
    assert main([*words, "--config.stop=EarlyStopping('eval/valid/los')"]) == 2
    assert "config.stop.metric: expected a score of config.evals.valid" in capsys.readouterr().err
    assert count() == {"variables": 1, "training": 1, "evaluation": 1}


def test_a_model_with_state_has_no_trace_more(counted, tmp_path):
    """The groups of its normalization are checked by the trace of the step. A dry run counts no FLOPs."""
    config, count = counted
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", "--config.model.norm=BatchNorm()"]
    assert main([*words, "--dry_run"]) == 0
    assert count() == {"variables": 1, "training": 1, "evaluation": 1}


def test_layers_that_are_not_run_are_not_trained() -> None:
    """Their gradient is zero, and a weight decay would change them."""
    model = ViT(patch=4, head=Classes(10, MeanTokens()), width=16, depth=2, heads=2, stack=Stack(outputs=(0,)))
    stated = tiny_experiments.vit(model=model)
    with pytest.raises(UserError, match=r"groups that freeze layers/, whose last layers are not run"):
        check(stated)
    check(dataclasses.replace(stated, optimizer=AdamW(peak_lr=1e-3, groups=train_all_but("layers/.*"))))
