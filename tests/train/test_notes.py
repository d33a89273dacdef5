"""What a resume says of a run whose config was changed: how the learning rate jumps, and how far the run is."""

import shutil

import pytest

from helpers.runs import train_here


@pytest.mark.parametrize(
    ("schedule", "extended", "jump"),
    [
        (
            "Cosine(warmup_steps=2,final=0.0)",
            80,
            "learning rate at step 41: 0 before, 0.0005201 now (num_steps 40 -> 80)",
        ),
        ("Constant(warmup_steps=2)", 80, None),
    ],
)
def test_extending_a_run_says_how_its_learning_rate_jumps(config, tmp_path, schedule, extended, jump):
    """Half a cosine of 78 updates after the warmup, at its update 38: (1 + cos(pi * 38 / 78)) / 2 of the peak 0.001."""
    workdir, flags = tmp_path / "run", [f"--config.optimizer.schedule={schedule}", "--config.optimizer.peak_lr=0.001"]
    code, out, err = train_here(config, workdir, *flags)
    assert code == 0 and out.endswith("done: step 40\n"), err
    flags += [f"--config.num_steps={extended}", "--allow_config_change", "--until=42"]
    code, out, err = train_here(config, workdir, *flags)
    assert code == 0 and out.endswith("stopped at step 42 of 80\n"), err
    assert [line for line in err.splitlines() if "learning rate" in line] == ([jump] if jump else [])


def test_the_last_line_has_the_step_that_is_saved(config, straight_run, tmp_path):
    """Also where the run had passed `--until` before."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    shutil.rmtree(workdir / "checkpoints" / "40")
    code, out, _ = train_here(config, workdir, "--until=10")
    assert code == 0 and out.endswith("stopped at step 30 of 40\n")
    flags = ["--config.num_steps=20000", "--allow_config_change", "--until=31"]
    code, out, _ = train_here(config, workdir, *flags)
    assert code == 0 and out.endswith("stopped at step 31 of 20,000\n")


def test_another_model_names_both_runs_to_compare(config, straight_run):
    code, _, err = train_here(config, straight_run, "--config.model.width=32", "--allow_config_change")
    assert code == 2 and f"see `txjax diff {straight_run} OTHER`, OTHER a run of this one" in err
