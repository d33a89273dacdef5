"""Updates that are dropped: steps without a weight, steps that are not finite, and runs of nothing else."""

import json

import jax
import numpy as np
import pytest

from txjax import sharding
from txjax.data import train_batches
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.types import flat_paths

from helpers import runs, tiny_experiments
from helpers.odd_weights import OddWeights

# The config of `runs` with odd weights, whose factors a flag sets, and a short run.
ODD = (
    runs.CONFIG.replace("data=NextTokenWindows(", "data=OddWeights(")
    .replace("import NextTokenWindows", "import NextTokenWindows\nfrom helpers.odd_weights import OddWeights")
    .replace("num_steps=40", "num_steps=3")
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "odd.py"
    path.write_text(ODD)
    return path


def batch_ids(experiment, step: int) -> list[int]:
    """The ids of the examples of a step."""
    batches = train_batches(
        experiment.data.open(), batch_size=experiment.batch_size, seed=experiment.seed, start_step=step - 1
    )
    ids = next(batches)["id"].tolist()
    batches.close()
    return ids


def test_a_run_without_any_weight_says_so_and_fails(odd, tmp_path):
    flags = "--config.data.factors=('0',)", "--config.checkpoint.best=None"
    code, out, err = runs.train_here(odd, tmp_path, *flags)
    assert code == 1 and "done" not in out
    last = (
        "all 3 updates were dropped, so the run has learned nothing; the last one: step 3: nothing to learn, since "
        "every weight of its batch is 0. Check the labels and weights of config.data; ignored labels and skipped "
        "images have weight 0"
    )
    assert err.splitlines()[-1].endswith(last)
    assert "step 2: nothing to learn, since every weight of its batch is 0; the update was dropped (2 in a row)" in err
    rows = runs.rows(tmp_path)
    assert [row["train/skipped"] for row in rows] == [1, 2, 3]
    assert not [name for row in rows for name in row if name in ("train/loss", "train/accuracy")]
    code, _, err = runs.train_here(odd, tmp_path, *flags)  # the same again
    assert code == 1 and err.splitlines()[-1].endswith("has learned nothing; metrics.jsonl has a row for each")


def test_max_skips_steps_without_weight_in_a_row_stop_the_run(odd, tmp_path):
    flags = "--config.data.factors=('0',)", "--config.max_skips=2", "--config.num_steps=5"
    code, _, err = runs.train_here(odd, tmp_path, *flags)
    assert code == 1 and [row["step"] for row in runs.rows(tmp_path)] == [1, 2]
    assert "every weight of its batch is 0, 2 updates in a row were dropped; the update was not applied" in err


@pytest.mark.parametrize("microbatches", [1, 2])
def test_a_step_without_weight_changes_nothing_but_the_counters(microbatches):
    exp = tiny_experiments.decoder(microbatches=microbatches, ema=None)
    batch = next(train_batches(exp.data.open(), batch_size=8, seed=0))
    half = np.arange(8)[:, None] % 2  # a whole microbatch: each is a stride through the batch
    with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
        layout = build_layout(exp, built)
        state, step, counts = layout.create(0), jit_step(exp, layout), []
        for factor in (half, 0, half):
            before = flat_paths(jax.device_get(state))
            weights = (batch["weights"] * factor).astype(np.float32)
            state, metrics = step(state, shard_batch(batch | {"weights": weights}, layout.batch))
            changed = [path for path, x in flat_paths(jax.device_get(state)).items() if (x != before[path]).any()]
            assert bool([path for path in changed if path.startswith(("params", "opt_state"))]) == (factor is half)
            counts.append(metrics["skipped"].tolist())
            assert float(metrics["sums"]["accuracy"].count) == weights.sum()
    assert counts == [[0, 0], [1, 1], [0, 1]]


def test_skipping_every_update_is_said_at_the_end(odd, tmp_path):
    flags = "--config.data.factors=('nan',)", "--config.on_nonfinite=skip", "--config.checkpoint.best=None"
    code, _, err = runs.train_here(odd, tmp_path, *flags, "--config.num_steps=2")
    assert code == 1
    last = "all 2 updates were dropped, so the run has learned nothing; the last one: step 2: loss nan, grad_norm nan. "
    assert err.splitlines()[-1].endswith(last + "Mend these examples of config.data, or leave them out")


def test_a_value_that_is_not_finite_is_named_by_its_example(odd, tmp_path):
    exp = tiny_experiments.decoder()
    bad = batch_ids(exp, 2)[5]
    code, _, err = runs.train_here(odd, tmp_path / "run", f"--config.data.nan={bad}")
    assert code == 1
    error = (
        "step 2: loss nan, grad_norm nan is not finite; the update was not applied and the checkpoints are good; its "
        f"batch has values that are not finite: weights of example {bad}. Mend these examples of config.data, or leave "
        "them out, or drop such updates with --config.on_nonfinite=skip"
    )
    assert err.splitlines()[-1].endswith(error)
    messages = (tmp_path / "run" / "logs" / "process_0.log").read_text()
    assert f"the examples of the batch of step 2: {batch_ids(exp, 2)}" in messages


def test_a_loss_that_explodes_on_finite_data_names_its_batch(odd, tmp_path):
    code, _, err = runs.train_here(odd, tmp_path, "--config.optimizer.peak_lr=1e30", "--config.optimizer.clip=None")
    row = runs.rows(tmp_path)[-1]
    ids = ", ".join(str(number) for number in sorted(batch_ids(tiny_experiments.decoder(), row["step"])))
    assert code == 1
    said = f"checkpoints are good; the values of its batch are finite: examples {ids}. Lower optimizer.peak_lr, or drop"
    assert said in err.splitlines()[-1], err


def test_one_term_without_weight_is_absent_and_the_others_count(tmp_path):
    path = tmp_path / "terms.py"
    path.write_text(
        ODD.replace("objective=NextToken()", "objective=TwoTerms()").replace(
            "def get_config", _TWO_TERMS + "\ndef get_config"
        )
    )
    code, _, err = runs.train_here(path, tmp_path / "run", "--config.num_steps=2")
    assert code == 0, err
    rows = runs.rows(tmp_path / "run")
    assert [("train/none" in row, row["train/skipped"]) for row in rows] == [(False, 0), (False, 0)]
    for row in rows:
        assert row["train/loss"] == row["train/next_token"]
    assert "eval/valid/none" not in rows[-1] and rows[-1]["eval/valid/loss"] == rows[-1]["eval/valid/next_token"]


_TWO_TERMS = '''
import dataclasses
import jax.numpy as jnp
from txjax.types import Mean

@dataclasses.dataclass
class TwoTerms(NextToken):
    """The loss of the next token, and a term without weight."""
    def __call__(self, *args, **kwargs):
        output = super().__call__(*args, **kwargs)
        return dataclasses.replace(output, losses=output.losses | {"none": Mean(jnp.float32(0), jnp.float32(0))})
'''


def test_an_evaluation_without_any_weight_has_no_score(tmp_path):
    path = tmp_path / "valid.py"
    path.write_text(ODD.replace("held_out = NextTokenWindows(", "held_out = OddWeights(factors=('0',), "))
    code, _, err = runs.train_here(path, tmp_path / "run", "--config.num_steps=2", "--config.checkpoint.best=None")
    assert code == 0 and "evals.valid has no score: every weight of its examples is 0" in err
    assert not [name for row in runs.rows(tmp_path / "run") for name in row if name.startswith("eval/")]
    code, out, err = runs.command("evaluate", f"--workdir={tmp_path / 'run'}", "--trust=helpers.odd_weights", "--json")
    assert code == 0 and not [name for name in json.loads(out) if name.startswith("eval/")], err


def odd_weights(factor: str) -> OddWeights:
    return OddWeights(name="txjax_python_text", length=16, factors=(factor,))


def test_members_of_a_population_fail_each_for_themselves(tmp_path):
    """One without any weight, one with weights."""
    from txjax.train.population.population import train_together

    exps = [tiny_experiments.decoder(num_steps=2, log_every_steps=1, data=odd_weights(factor)) for factor in "10"]
    code, failed = train_together(exps, [tmp_path / "some", tmp_path / "none"])
    assert code == 0 and list(failed) == [1]
    assert str(failed[1]).startswith("all 2 updates were dropped, so the run has learned nothing")
    assert [row["train/skipped"] for row in runs.rows(tmp_path / "none")] == [1, 2]
    assert "train/loss" not in runs.rows(tmp_path / "none")[0]
    assert [row["train/skipped"] for row in runs.rows(tmp_path / "some")] == [0, 0]


@pytest.mark.slow
def test_two_processes_name_the_example_of_either(odd, tmp_path):
    bad = batch_ids(tiny_experiments.decoder(), 2)[5]  # the second process has it
    flags = f"--config.data.nan={bad}", "--config.on_nonfinite=skip"
    assert runs.train_here(odd, tmp_path / "one", *flags)[0] == 0
    ended = runs.ended(runs.start_several(2, odd, tmp_path / "two", *flags))
    for code, _, err in ended:
        assert code == 0 and f"its batch has values that are not finite: weights of example {bad}" in err, err
    for row, single in zip(runs.rows(tmp_path / "two"), runs.rows(tmp_path / "one"), strict=True):
        assert row["train/skipped"] == single["train/skipped"] and row["train/batch_hash"] == single["train/batch_hash"]
        np.testing.assert_allclose(float(row["train/loss"]), float(single["train/loss"]), rtol=1e-5)
