"""`txjax quantize`: adapters trained on a base in few bits, which stays as it is; scores, sizes, merging, refusals."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from txjax import config as configs
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.checkpoint.stored_weights import stored_weights
from txjax.train.population.population import train_together
from txjax.types import flat_paths

from helpers import runs

pytestmark = pytest.mark.slow

STORAGE = "QuantizedKernels(format='nf4', tile=8)"
TUNED = (
    runs.CONFIG.replace("heads=2)", f"heads=2, adapter=LoRA(rank=2), storage={STORAGE})")
    .replace("Constant(warmup_steps=2)", "Constant(), peak_lr=0.01, groups=train_adapter()")
    .replace("num_steps=40", "num_steps=8")
    .replace("import AdamW", "import train_adapter, AdamW")
    .replace("import Checkpoints", "import Checkpoints\nfrom txjax.nn import QuantizedKernels\n", 1)
)


def ask(*words: object) -> tuple[int, str]:
    code, out, err = runs.command(*map(str, words))
    return code, out if code == 0 else err


def score(workdir: Path) -> float:
    code, out = ask("evaluate", f"--workdir={workdir}", "--json")
    assert code == 0, out
    return json.loads(out)["eval/valid/loss"]


@pytest.fixture(scope="module")
def folder(straight_run, tmp_path_factory) -> Path:
    """A quantized base, and a run that tuned an adapter on it."""
    folder = tmp_path_factory.mktemp("quantized")
    code, out = ask("quantize", f"--workdir={straight_run}", f"--to={folder / 'base'}", f"--storage={STORAGE}")
    assert code == 0 and f"--config.model.storage='{STORAGE}' --config.init_from={folder / 'base'}" in out
    (folder / "tuned.py").write_text("from txjax.nn.adapters import LoRA\n" + TUNED)
    origin = "--config.checkpoint.frozen=origin"
    code, _, err = runs.train_here(folder / "tuned.py", folder / "run", f"--config.init_from={folder / 'base'}", origin)
    assert code == 0, err
    return folder


def arrays(workdir: Path, kind: str) -> dict[str, np.ndarray]:
    store = Store(workdir)
    return flat_paths(stored_weights(store, store.choose("last"))[kind])


def test_adapters_train_on_a_base_that_stays_as_it_is(folder, straight_run) -> None:
    base, run = arrays(folder / "base", "frozen"), arrays(folder / "run", "frozen")
    assert {path.rpartition("/")[2] for path in base} == {"nf4", "scale"}
    for path, x in base.items():
        np.testing.assert_array_equal(x, run[path], err_msg=path)
    assert {path.split("/")[-3] for path in arrays(folder / "run", "params")} == {"lora"}
    origins = Store(folder / "run").record(8)["origins"]
    assert {f"weights/frozen/{path}" for path in base} <= {at for origin in origins for at in origin["arrays"]}
    before, after = score(straight_run), score(folder / "base")
    assert 0 < abs(after - before) < 0.02
    assert score(folder / "run") < after


def test_the_merged_run_has_float_kernels_and_the_same_outputs(folder, tmp_path) -> None:
    code, out = ask("merge", f"--workdir={folder / 'run'}", f"--to={tmp_path / 'merged'}")
    assert code == 0, out
    assert score(tmp_path / "merged") == pytest.approx(score(folder / "run"), abs=1e-5)
    kernel = arrays(tmp_path / "merged", "params")["layers/block/mlp/up/kernel"]
    assert kernel.dtype == np.float32 and kernel.shape == (1, 16, 64)


def test_a_population_trains_adapters_on_one_quantized_base(folder, tmp_path) -> None:
    found = [configs.load(str(folder / "tuned.py"), []) for _ in range(2)]
    for i, experiment in enumerate(found):
        experiment.init_from, experiment.seed = str(folder / "base"), i
    code, failed = train_together(found, [tmp_path / "0", tmp_path / "1"])
    assert code == 0 and not failed
    one, alone = arrays(tmp_path / "0", "params"), arrays(folder / "run", "params")
    for path, x in alone.items():
        np.testing.assert_allclose(one[path], x, atol=5e-3, err_msg=path)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--config.model.storage=None",),
            "init_from: expected a run with layers/block/.*/kernel in float32",
        ),
        (("--config.model.storage.format=int8",), "init_from: expected a run with .* in int8, got 'nf4 in"),
        (("--config.model.storage.tile=4",), "init_from: expected .*kernel/scale to be"),
        (("--config.optimizer.groups=(Group(),)",), "groups: expected groups that freeze layers/.*/kernel, got"),
    ],
)
def test_what_does_not_fit_the_base_is_refused(folder, tmp_path, flags, words, capsys) -> None:
    start = f"--config.init_from={folder / 'base'}"
    code = main(["train", f"--config={folder / 'tuned.py'}", f"--workdir={tmp_path / 'run'}", start, *flags])
    line = capsys.readouterr().err
    assert code == 2 and len(line.splitlines()) == 1
    assert re.search(f"config.*{words}", line), line


def test_runs_that_cannot_be_quantized_are_refused(folder, straight_run, tmp_path) -> None:
    for workdir, words in ((folder / "run", "without model.adapter"), (folder / "base", "without model.storage")):
        code, err = ask("quantize", f"--workdir={workdir}", f"--to={tmp_path / 'new'}")
        assert code == 2 and f"--workdir: expected a run {words}" in err, err
    code, err = ask("quantize", f"--workdir={straight_run}", f"--to={folder / 'base'}")
    assert code == 2 and "--to: expected a new folder" in err
    code, err = ask(
        "quantize", f"--workdir={straight_run}", f"--to={tmp_path / 'n'}", "--storage=QuantizedKernels(form=1)"
    )
    assert code == 2 and "--storage" in err and "format" in err
