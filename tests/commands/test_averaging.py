"""`txjax average`: the mean of checkpoints as a workdir that other commands read."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.checkpoint.stored_weights import mean_weights, stored_weights
from txjax.io import digest
from txjax.types import UserError, flat_paths

from helpers import runs
from helpers.arrays import numbers

pytestmark = pytest.mark.claim(
    "Transfer",
    "the mean of checkpoints is numpy's, and is evaluated, continued and not resumed",
)


def ask(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def mean(arrays) -> np.ndarray:
    return np.mean(np.stack(arrays).astype(np.float64), 0).astype(np.float32)


@pytest.fixture(scope="module")
def averaged(straight_run, tmp_path_factory):
    at = tmp_path_factory.mktemp("mean") / "run"
    assert main(["average", f"--workdir={straight_run}", "--last=3", f"--to={at}"]) == 0
    return at


@pytest.mark.slow
def test_every_array_is_the_mean(straight_run, averaged):
    store = Store(straight_run)
    parts = [flat_paths(stored_weights(store, step)) for step in (20, 30, 40)]
    found = flat_paths(stored_weights(Store(averaged), 40))
    assert found.keys() == parts[0].keys() and len(found) > 8
    for path, x in found.items():
        assert x.dtype == np.float32
        np.testing.assert_array_equal(x, mean([part[path] for part in parts]), err_msg=path)
    origins = [{"run": str(straight_run), "step": s, "digest": digest.of_all(store.path(s))} for s in (20, 30, 40)]
    assert Store(averaged).record(40)["averaged"] == origins
    assert json.loads((averaged / "manifest.json").read_text())["init_from"] == origins


def test_it_is_evaluated_and_starts_a_run_but_is_not_resumed(averaged, config, tmp_path, capsys):
    code, out, err = ask(capsys, "evaluate", f"--workdir={averaged}", "--json")
    assert code == 0, err
    assert json.loads(out)["step"] == 40 and np.isfinite(json.loads(out)["eval/valid/loss"])
    code, out, err = ask(capsys, "generate", f"--workdir={averaged}", "--length=2", "--json")
    assert code == 0, err
    code, _, err = runs.train_here(config, averaged)
    assert code == 2 and "has only weights" in err and f"--config.init_from={averaged}" in err
    flags = (f"--config.init_from={averaged}", "--dry_run", f"--workdir={tmp_path / 'next'}")
    code, _, err = ask(capsys, "train", f"--config={config}", *flags)
    assert code == 0, err


def test_averages_and_state_are_averaged_whole_numbers_are_the_last(tmp_path):
    def weights(step: int, size: int = 3) -> dict:
        state = {"batch_stats": {"mean": jnp.asarray(numbers(2, seed=step)), "count": jnp.int32(step)}}
        kernel, same = jnp.asarray(numbers(size, 2, seed=10 * step)), jnp.asarray(numbers(5))
        own = {"params": {"a": kernel}, "frozen": {"b": same}, "model_state": state, "ema": {"a": kernel + 1}}
        return {"weights": own}

    store = Store(tmp_path)
    for step, size in ((1, 3), (2, 3), (3, 3), (4, 4)):
        store.options.keep = 9
        store.save_parts(step, weights(step, size), {})
    store.wait()
    found, saved = mean_weights(store, [1, 2, 3]), [weights(step)["weights"] for step in (1, 2, 3)]
    for pick in (
        lambda w: w["params"]["a"],
        lambda w: w["ema"]["a"],
        lambda w: w["model_state"]["batch_stats"]["mean"],
    ):
        np.testing.assert_array_equal(pick(found), mean([pick(each) for each in saved]))
    np.testing.assert_array_equal(found["frozen"]["b"], saved[0]["frozen"]["b"])
    assert found["model_state"]["batch_stats"]["count"] == 3
    assert found["model_state"]["batch_stats"]["count"].dtype == jnp.int32
    said = r"checkpoint 3: expected weights/ema/a as in step 4, float32\[4, 2\], got 'float32\[3, 2\]'; the config"
    with pytest.raises(UserError, match=said):
        mean_weights(store, [3, 4])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--last=4", "--last: expected 1 to 3, the number of checkpoints in "),
        ("", "got 5; checkpoint.keep is how many a run keeps"),
        ("--last=0", "--last: expected 1 to 3"),
        ("--steps=20,25", "--steps: expected some of 20, 30, 40, got '25'"),
        ("--steps=20 --last=1", "--last: expected no --steps too, got 1"),
    ],
)
def test_steps_that_are_not_there(straight_run, tmp_path, capsys, flags, said):
    code, _, err = ask(capsys, "average", f"--workdir={straight_run}", f"--to={tmp_path / 'x'}", *flags.split())
    assert code == 2 and said in err and len(err.splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_damaged_steps_and_folders_that_are_taken(straight_run, averaged, tmp_path, capsys):
    code, _, err = ask(capsys, "average", f"--workdir={straight_run}", "--last=2", f"--to={averaged}")
    assert code == 2 and "--to: expected a new folder" in err
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    record = workdir / "checkpoints" / "30" / "record.json"
    record.write_bytes(record.read_bytes().replace(b"step", b"stop", 1))
    code, _, err = ask(capsys, "average", f"--workdir={workdir}", "--steps=40,30", f"--to={tmp_path / 'x'}")
    assert code == 2 and "checkpoint 30: expected undamaged files" in err and not (tmp_path / "x").exists()
    code, out, err = ask(capsys, "average", f"--workdir={workdir}", "--steps=40,20", f"--to={tmp_path / 'x'}")
    assert code == 0 and "the mean of steps 20, 40 of" in out, err
    assert jax.tree.leaves(stored_weights(Store(tmp_path / "x"), 40))
