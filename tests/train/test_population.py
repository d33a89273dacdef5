"""Several runs in one program: what each leaves is what its run alone leaves, to rounding."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from orbax.checkpoint import v1 as ocp

from txjax.checkpoint import Checkpoints, Store
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.io import digest
from txjax.log import read_metrics
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Normal
from txjax.nn.adapters import LoRA
from txjax.objectives import Classification, MaskedToken
from txjax.optim import EMA, LARS, SGD, Adafactor, AdamW, Constant, Cosine, Lion, Muon, Spikes, train_only
from txjax.train.dropped_updates import NotFinite
from txjax.train.population.population import Population, train_together
from txjax.train.population.traced import check_together, populations
from txjax.train.recorder import RunRecorder
from txjax.train.trainer import Trainer, train
from txjax.transfer import From
from txjax.types import UserError, flat_paths

from helpers import runs, tiny_experiments
from helpers.evaluations import Pictures

pytestmark = pytest.mark.claim("Sweeps, populations, laws", "members of a population equal single runs")

ROUNDING = {"rtol": 2e-4, "atol": 2e-6}  # of six updates: a first moment's rounding goes into the sign of tiny steps


def experiment(**changes: Any) -> Experiment:
    """Six steps of a tiny decoder; `changes` by dotted path."""
    made = tiny_experiments.decoder(
        model=Decoder(vocab=256, width=16, depth=1, heads=2, initial=Normal(stddev=0.1)),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation", length=16), every_steps=4, max_batches=1)},
        optimizer=AdamW(schedule=Constant(warmup_steps=2)),
        checkpoint=Checkpoints(every_steps=2, keep=2),
        num_steps=6,
        log_every_steps=1,
    )
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = made
        for parent in parents:
            place = getattr(place, parent)
        setattr(place, name, copy.deepcopy(value))
    return made


POINTS: list[dict[str, Any]] = [
    {},
    {"optimizer.peak_lr": 3e-3, "optimizer.weight_decay": 0.0, "optimizer.clip": 0.5, "optimizer.eps": 1e-6},
    {"seed": 3, "optimizer.b2": 0.99, "model.initial.stddev": 0.05, "optimizer.schedule": Cosine(warmup_steps=4)},
    {"optimizer.peak_lr": 1e30},  # diverges
]


def clean(workdir: Path) -> list[dict[str, Any]]:
    """The rows of a run without clocks."""
    return [
        {k: v for k, v in row.items() if k != "time" and not k.startswith(("perf/", "goodput"))}
        for row in read_metrics(workdir)
    ]


def arrays(workdir: Path, step: int) -> dict[str, np.ndarray]:
    path = Store(workdir).path(step) / "arrays"
    stored = ocp.checkpointables_metadata(path).metadata
    return flat_paths(ocp.load_checkpointables(path, jax.tree.map(lambda x: np.empty(x.shape, x.dtype), stored)))


def assert_same_run(one: Path, other: Path, exactly: bool = False, rounding: dict[str, float] = ROUNDING) -> None:
    """Rows and checkpoints of two workdirs, to rounding or to the bit.

    The gradient of the keys' biases is 0 but for rounding, which Adam blows up: to rounding they are not compared.
    """
    assert (one / "config.json").read_text() == (other / "config.json").read_text()
    rows, others = clean(one), clean(other)
    assert [list(row) for row in rows] == [list(row) for row in others]
    for row, theirs in zip(rows, others, strict=True):
        for name, value in row.items():
            if rounding is not ROUNDING and name.endswith("accuracy"):
                continue  # it jumps
            if exactly or isinstance(value, int):
                assert value == theirs[name] or value != value, f"{name} at step {row['step']}"
            np.testing.assert_allclose(value, theirs[name], **rounding, err_msg=f"{name} at step {row['step']}")
    assert Store(one).steps() == Store(other).steps()
    for step in Store(one).steps():
        assert not Store(one).faults(step)
        mine, theirs = arrays(one, step), arrays(other, step)
        assert mine.keys() == theirs.keys()
        for path, x in mine.items():
            if exactly:
                assert x.tobytes() == theirs[path].tobytes(), path
            if exactly or "key/bias" not in path:
                np.testing.assert_allclose(x, theirs[path], **rounding, err_msg=f"{path} at step {step}")


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> list[Path]:
    """The workdirs of `POINTS`, trained together. Leave them as they are."""
    folder = tmp_path_factory.mktemp("together")
    workdirs = [folder / str(i) for i in range(len(POINTS))]
    code, failed = train_together([experiment(**point) for point in POINTS], workdirs)
    assert code == 0 and list(failed) == [3] and isinstance(failed[3], NotFinite)
    assert "is not finite" in str(failed[3])
    return workdirs


@pytest.mark.parametrize(
    "number", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3]
)
def test_each_member_is_its_run_alone(together, tmp_path, number):
    alone = tmp_path / "alone"
    if number == 3:  # its end too is its own
        with pytest.raises(NotFinite, match="is not finite"):
            train(experiment(**POINTS[3]), alone)
        assert 1 <= len(clean(alone)) < 6
    else:
        assert train(experiment(**POINTS[number]), alone) == 0
        assert clean(alone)[-1]["step"] == 6 and "eval/valid/loss" in clean(alone)[3]
    assert_same_run(together[number], alone)


@pytest.mark.slow
@pytest.mark.mesh
def test_it_resumes_to_the_bit(together, tmp_path):
    """Without the one that failed, too: on eight devices that changes no program (on one it changes rounding)."""
    points = [experiment(**point) for point in POINTS]
    workdirs = [tmp_path / str(i) for i in range(len(points))]
    code, failed = train_together(points, workdirs, until=4)
    assert code == 0 and list(failed) == [3] and Store(workdirs[0]).steps() == [2, 4]
    (Store(workdirs[1]).path(4) / digest.NAME).unlink()  # as a kill leaves it: the others have step 4
    assert train_together(points[:3], workdirs[:3]).code == 0
    for i in range(3):
        assert_same_run(workdirs[i], together[i], exactly=True)


@pytest.mark.slow
@pytest.mark.mesh
def test_a_member_resumes_as_a_single_run(together, tmp_path):
    point, other = experiment(**POINTS[1]), experiment(**POINTS[0])
    assert train_together([point, other], [tmp_path / "run", tmp_path / "other"], until=4).code == 0
    assert train(point, tmp_path / "run") == 0
    assert_same_run(tmp_path / "run", together[1])
    # And one that is ahead waits for the other.
    assert train_together([point, other], [tmp_path / "run", tmp_path / "other"]).code == 0
    assert_same_run(tmp_path / "other", together[0])


def test_what_is_one_program():
    points = [
        experiment(),
        experiment(**{"model.depth": 2}),
        experiment(**{"optimizer.peak_lr": 0.1, "seed": 7}),
        experiment(**{"objective.loss.label_smoothing": 0.1}),  # other rows than without it
        experiment(**{"objective.loss.label_smoothing": 0.2, "optimizer.weight_decay": 0}),
        experiment(**{"optimizer": Lion()}),
        experiment(
            **{
                "optimizer.schedule": Cosine(),
                "data": NextTokenWindows(name="txjax_python_text", length=16, split="validation"),
            }
        ),
        experiment(**{"data": NextTokenWindows(name="txjax_python_text", length=8)}),
    ]
    assert populations(points) == [[0, 2, 6], [1], [3, 4], [5], [7]]


@pytest.mark.parametrize(
    "path, value",
    [("model.depth", 2), ("batch_size", 16), ("model.mlp.activation", "relu"), ("optimizer.clip", None)],
)
def test_what_the_program_depends_on_is_named(path, value):
    with pytest.raises(UserError, match=rf"config\.{path}: expected one value where points train together, got"):
        check_together([experiment(), experiment(**{path: value})])


def test_a_config_that_is_wrong_by_itself_says_so(tmp_path):
    wrong = {"optimizer.weight_decay": 0.2, "model.heads": 3}
    workdirs = [tmp_path / "0", tmp_path / "1"]
    with pytest.raises(UserError, match=r"heads"):
        train_together([experiment(**{"model.heads": 3}), experiment(**wrong)], workdirs)
    assert not list(tmp_path.iterdir())


TEXT = {"evals": {}}
IMAGES = TEXT | {
    "ema": EMA(decay=0.9),
    "spikes": Spikes(window=2),
    "model": ViT(width=16, depth=1, heads=2, patch=2, head=Classes(3, FirstToken())),
    "objective": Classification(),
    "data": Pictures(split="train"),
}
MASKED = TEXT | {"objective": MaskedToken(mask_id=256, vocab=256), "model": Bert(vocab=257, width=16, depth=1, heads=2)}
HALF = TEXT | {"microbatches": 2, "batch_size": 16, "model.dtype": "bfloat16"}


WARM = Constant(warmup_steps=2)
ADAPTED = TEXT | {
    "model": Decoder(vocab=256, width=16, depth=1, heads=2, adapter=LoRA(rank=2)),
    "optimizer": AdamW(schedule=WARM, groups=train_only(".*/lora/.*")),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "base, changes",
    [
        (TEXT | {"optimizer": SGD(schedule=WARM)}, {"optimizer.momentum": 0.5, "optimizer.weight_decay": 0.1}),
        (IMAGES | {"optimizer": SGD(nesterov=True, schedule=WARM)}, {"optimizer.momentum": 0.5}),
        (IMAGES | {"optimizer": LARS(schedule=WARM)}, {"optimizer.trust": 0.01, "optimizer.weight_decay": 0.1}),
        (
            TEXT | {"optimizer": Adafactor(schedule=WARM)},
            {"optimizer.decay_exponent": 0.7, "optimizer.min_scale": 0.01},
        ),
        (TEXT | {"optimizer": Lion(schedule=WARM)}, {"optimizer.b1": 0.8, "optimizer.b2": 0.9, "seed": 1}),
        (
            TEXT | {"optimizer": Muon(schedule=WARM)},
            {"optimizer.momentum": 0.9, "optimizer.rms": 0.3, "optimizer.b1": 0.8},
        ),
        (IMAGES, {"seed": 1, "ema.decay": 0.8, "spikes.factor": 20.0}),
        (MASKED, {"seed": 1, "objective.rate": 0.15, "objective.mask": 0.7}),
        (HALF, {"seed": 1, "optimizer.b1": 0.8}),
        (ADAPTED, {"seed": 1, "model.adapter.alpha": 4.0}),
    ],
)
def test_every_optimizer_and_objective(base, changes, tmp_path):
    points = [experiment(**base), experiment(**base, **changes)]
    assert populations(points) == [[0, 1]]
    assert train_together(points, [tmp_path / "0", tmp_path / "1"]).code == 0
    train(points[1], tmp_path / "alone")
    rounding = {"rtol": 2e-2, "atol": 2e-3} if base is HALF else ROUNDING  # products are rounded to 8 bits
    assert_same_run(tmp_path / "1", tmp_path / "alone", rounding=rounding)


KILLED = """
import os, sys
from pathlib import Path
from txjax import config
from txjax.train.population.population import Population, train_together

name, folder = sys.argv[1:]
flags = [["--config.optimizer.peak_lr=0.01"], ["--config.seed=1"], ["--config.optimizer.b2=0.9"]]
often = ["--config.checkpoint.every_steps=5", "--config.evals.valid.every_steps=5"]
points = [config.load(name, [*some, *often]) for some in flags]
sys.exit(train_together(points, [Path(folder) / str(i) for i in range(3)]).code)
"""


def start(config: Path, folder: Path) -> subprocess.Popen:
    environment = os.environ | {"XLA_FLAGS": runs.xla_flags(1)}
    environment |= {"PYTHONPATH": os.pathsep.join(runs.PATHS)}
    words = [sys.executable, "-c", KILLED, str(config), str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_killed_again_and_again(config, tmp_path):
    undisturbed = start(config, tmp_path / "straight")
    for step, number in ((7, signal.SIGKILL), (26, signal.SIGTERM)):
        process = start(config, tmp_path / "killed")
        runs.wait_for_step(process, tmp_path / "killed" / "2", step)
        process.send_signal(number)
        process.communicate(timeout=300)
        assert process.returncode == (75 if number == signal.SIGTERM else -number)
    for code, _, err in runs.ended([start(config, tmp_path / "killed"), undisturbed]):
        assert code == 0, err
    for i in range(3):
        assert_same_run(tmp_path / "killed" / str(i), tmp_path / "straight" / str(i), exactly=True)
        assert len(clean(tmp_path / "killed" / str(i))) == 40


@pytest.mark.slow
def test_a_base_that_all_members_have_is_there_once(tmp_path, monkeypatch):
    """Adapters of one run: each member is its run alone, and a resumed population the one that was not stopped."""
    assert train(experiment(num_steps=2), tmp_path / "base") == 0
    tuned = {"init_from": From(str(tmp_path / "base")), "model": experiment().model.clone(adapter=LoRA(rank=2))}
    tuned |= {"optimizer.groups": train_only(".*/lora/.*")}
    points = [experiment(**tuned, **{"optimizer.peak_lr": rate}) for rate in (1e-2, 1e-1)]
    seen = []

    def recorded(self: Population, *args: Any) -> int:
        seen.append(flat_paths(self.state.params | {"frozen": self.state.frozen}))
        return Trainer.train(self, *args)

    monkeypatch.setattr(Population, "train", recorded)
    workdirs = [tmp_path / name for name in ("a", "b")]
    assert train_together(points, workdirs, until=4).code == 0
    assert train_together(points, workdirs).code == 0
    for found in seen:
        assert found["frozen/embed/embedding"].shape == (256, 16)
        assert found["layers/block/attention/query/lora/down/kernel"].shape == (2, 1, 16, 2)
    assert train(points[1], tmp_path / "alone") == 0
    assert_same_run(workdirs[1], tmp_path / "alone")


@pytest.mark.slow
def test_a_member_that_was_not_evaluated_is_when_all_resume(together, tmp_path, monkeypatch):
    """Killed while the scores of the last step were added: those that have theirs are not evaluated again."""
    workdirs = [shutil.copytree(folder, tmp_path / folder.name) for folder in together[:2]]
    digests = workdirs[1] / "checkpoints" / "6" / "digests.json"
    without = {name: text for name, text in json.loads(digests.read_text()).items() if name != digest.ADDED}
    digests.write_text(json.dumps(without, indent=1, sort_keys=True) + "\n")
    evaluated, evaluate = [], RunRecorder.evaluate

    def counted(self, name, variables, step):
        evaluated.append((self.workdir.name, name, step))
        return evaluate(self, name, variables, step)

    monkeypatch.setattr(RunRecorder, "evaluate", counted)
    code, failed = train_together([experiment(**point) for point in POINTS[:2]], workdirs)
    assert code == 0 and not failed and evaluated == [("1", "valid", 6)]
    for here, there in zip(workdirs, together, strict=False):
        assert_same_run(here, there, exactly=True)
        assert Store(here).record(6)["metrics"] == Store(there).record(6)["metrics"]
