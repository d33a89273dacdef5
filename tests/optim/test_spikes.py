"""Spikes: updates are dropped by the formula, written again in numpy, and dropped updates change nothing."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.optim import SGD, Constant, Spikes
from txjax.train.step import make_step
from txjax.tree import check_fields
from txjax.types import Mean, ObjectiveOutput, TrainState, UserError, flat_paths

from helpers import runs

SCALES = [1, 2, 1.5, 1, 30, 1, math.nan, 2, 25, 40, 1, 1.2, 1e30, 1, math.inf, 3]  # of the gradients, step by step


def toy(spikes: Spikes):
    """An experiment of one parameter whose gradient is the batch's `value`, as the step sees it."""

    def objective(model, variables, batch, key, train):
        loss = Mean(jnp.sum(variables["params"]["w"] * batch["value"]), jnp.float32(1))
        return ObjectiveOutput({"loss": loss}, {})

    optimizer = SGD(peak_lr=0.1, momentum=0.9, clip=None, schedule=Constant(), weight_decay=0.0)
    tx = spikes.watch(optimizer.build(100, {"w": ("width",)}))
    params = {"w": jnp.ones((1,))}
    state = TrainState(jnp.int32(0), params, {}, {}, tx.init(params), jnp.zeros((2,), jnp.int32))
    data = SimpleNamespace(batch_specs=lambda: {"": {}})
    fields = dict(microbatches=1, num_steps=100, ema=None, seed=0, data=data)
    experiment = SimpleNamespace(
        model=None, objective=objective, optimizer=optimizer, spikes=spikes, layer_norms_every_steps=None, **fields
    )
    step = jax.jit(make_step(experiment, SimpleNamespace(tx=tx, rate=optimizer.lr(100), abstract=state, axes=None)))
    return state, step


def test_which_are_dropped_is_what_the_formula_says():
    factor, window = 4.0, 4
    state, step = toy(Spikes(factor=factor, window=window))
    applied, dropped = [], []
    for i, scale in enumerate(SCALES):
        before = jax.device_get(state)
        state, metrics = step(state, {"value": np.full((1,), scale, np.float32)})
        spike = len(applied) >= window and scale > factor * np.median(applied[-window:])
        if not math.isfinite(scale) or spike:
            dropped.append(i)
            kept = flat_paths({"params": state.params, "opt": state.opt_state})
            for path, old in flat_paths({"params": before.params, "opt": before.opt_state}).items():
                assert np.array_equal(old, np.asarray(kept[path])), path
        else:
            applied.append(scale)
            assert not np.array_equal(before.params["w"], np.asarray(state.params["w"]))
        assert int(metrics["skipped"][1]) == len(dropped), f"step {i}, {scale}"
    assert dropped == [4, 6, 8, 9, 12, 14]
    assert np.isfinite(np.asarray(state.params["w"])).all()
    np.testing.assert_array_equal(np.sort(np.asarray(state.opt_state.norms)), np.sort(np.float32(applied[-window:])))


def test_nothing_is_dropped_before_the_window_is_full():
    state, step = toy(Spikes(factor=2.0, window=8))
    for scale in (1, 50, 1, 50, 1, 50):
        state, metrics = step(state, {"value": np.full((1,), scale, np.float32)})
    assert int(metrics["skipped"][1]) == 0


def test_consecutive_spikes_stop_the_run(tmp_path, capsys):
    text = runs.CONFIG.replace("AdamW, Constant", "AdamW, Constant, Spikes")
    path = tmp_path / "spiky.py"
    spikes = "spikes=Spikes(factor=1.000001, window=2), max_skips=3, num_steps=40,"
    path.write_text(text.replace("num_steps=40,", spikes))
    code = main(["train", f"--config={path}", f"--workdir={tmp_path / 'run'}"])
    err = capsys.readouterr().err
    assert code == 1 and "is a spike, 3 in a row" in err and "Traceback" not in err, err
    last = runs.rows(tmp_path / "run")[-1]
    assert last["train/skipped"] >= 3 and math.isfinite(last["train/loss"])


@pytest.mark.parametrize("values", [{"factor": 1.0}, {"window": 1}])
def test_ranges(values):
    with pytest.raises(UserError):
        check_fields(Spikes(**values))
