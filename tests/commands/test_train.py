"""`txjax train` from the command line: real processes, real signals, files on a disk."""

import json
import shutil
import signal
import subprocess

import pytest

from txjax.__main__ import main

from helpers.runs import rows, start, train, train_here, wait_for_step


def test_files_of_a_finished_run(straight_run):
    found = rows(straight_run)
    assert [row["step"] for row in found] == list(range(1, 41))
    keys = {"train/loss", "train/accuracy", "train/grad_norm", "train/lr", "train/batch_hash", "train/skipped"}
    assert all(keys <= set(row) for row in found)
    assert [row["step"] for row in found if "eval/valid/loss" in row] == [10, 20, 30, 40]
    assert found[-1]["train/loss"] < found[0]["train/loss"]
    assert len({row["train/batch_hash"] for row in found}) == 40
    whole = json.loads((straight_run / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"time", "perf/step_ms", "perf/tokens_per_s", "perf/data_wait"} <= set(whole)
    assert {"config.json", "manifest.json", "checkpoints", "logs"} <= {p.name for p in straight_run.iterdir()}
    manifest = json.loads((straight_run / "manifest.json").read_text())
    assert (
        manifest["flops_per_step"] > 0
        and manifest["parameters"] > 0
        and set(manifest["data"]) == {"train", "eval/valid"}
    )
    assert sorted(int(p.name) for p in (straight_run / "checkpoints").iterdir()) == [20, 30, 40]


def test_the_same_command_again_does_nothing(straight_run, config):
    before = rows(straight_run)
    code, _, err = train_here(config, straight_run)
    assert code == 0 and rows(straight_run) == before, err
    note = "freed memory is"  # in the log file only, like all messages on memory and compiler
    assert note in (straight_run / "logs" / "process_0.log").read_text() and note not in err


def test_curves_are_drawn_at_the_end_unless_trackers_has_none(config, straight_run, tmp_path):
    """`straight_run` has no trackers; with the default it draws, unless a flag sets them to ()."""
    assert not (straight_run / "curves.png").exists()
    path, workdir = tmp_path / "default.py", shutil.copytree(straight_run, tmp_path / "run")
    path.write_text(config.read_text().replace("        trackers=(),\n", ""))
    code, out, err = train_here(path, workdir, "--config.trackers=()")
    assert code == 0 and out.endswith("done: step 40\n"), err
    assert not (workdir / "curves.png").exists() and not (workdir / "tensorboard").exists()
    shutil.rmtree(workdir / "checkpoints" / "40")
    code, out, err = train_here(path, workdir)
    assert code == 0 and out.endswith(f"done: step 40; curves in {workdir / 'curves.png'}\n"), err
    assert (workdir / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_resume_after_sigkill_and_sigterm_is_exact(config, straight_run, tmp_path):
    """SIGKILL while stepping, SIGKILL in a save, SIGTERM: the log equals the uninterrupted run's bit for bit.

    While the first process has the workdir, another one is refused.
    """
    workdir = tmp_path / "run"
    process = start(config, workdir)
    wait_for_step(process, workdir, 13)
    process.send_signal(signal.SIGSTOP)
    code, _, err = train_here(config, workdir)
    assert code == 2 and "no other run is using" in err and str(process.pid) in err
    process.kill()
    process.communicate()
    process = start(config, workdir)
    wait_for_step(process, workdir, 19)
    while process.poll() is None:
        unfinished = [p for p in (workdir / "checkpoints").glob("*") if not (p / "digests.json").exists()]
        if unfinished:
            break
    process.kill()
    process.communicate()
    process = start(config, workdir)
    wait_for_step(process, workdir, 23)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "finishing this step and saving it" in err and "preempted: saved at step" in err
    code, _, err = train_here(config, workdir)
    assert code == 0 and "resuming at step" in err
    assert rows(workdir) == rows(straight_run)


def test_a_flipped_bit_in_the_newest_checkpoint_costs_one_interval(config, straight_run, tmp_path):
    workdir = tmp_path / "run"
    assert train_here(config, workdir, "--until=25")[0] == 0
    newest = workdir / "checkpoints" / "25"
    largest = max((p for p in newest.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    whole = bytearray(largest.read_bytes())
    whole[len(whole) // 2] ^= 1
    largest.write_bytes(whole)
    code, _, err = train_here(config, workdir)
    assert code == 0 and "checkpoint 25 is damaged" in err and "resuming at step 20" in err
    assert rows(workdir) == rows(straight_run)


@pytest.mark.mesh
def test_resume_on_another_mesh(config, straight_run, tmp_path):
    """Eight devices resume what one began."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    for step in (30, 40):
        shutil.rmtree(workdir / "checkpoints" / str(step))
    code, _, err = train_here(config, workdir, "--config.mesh.data=2", "--config.mesh.fsdp=4")
    assert code == 0 and "resuming at step 20" in err, err
    for here, there in zip(rows(workdir), rows(straight_run), strict=True):
        assert here["train/batch_hash"] == there["train/batch_hash"]
        assert here["train/loss"] == pytest.approx(there["train/loss"], rel=1e-5)


def test_another_config_is_shown_as_a_difference(config, straight_run):
    before = (straight_run / "config.json").read_text()
    code, _, err = train_here(config, straight_run, "--config.model.width=32", "--config.log_every_steps=5")
    assert code == 2 and "model.width: 16 -> 32" in err and "log_every_steps" not in err
    assert "--allow_config_change" in err and (straight_run / "config.json").read_text() == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--config.optimizer.peak_lr=nan"], ["config.optimizer.peak_lr", "finite", "nan"]),
        (["--config.num_steps=-5"], ["config.num_steps", "at least 1", "-5"]),
        (["--config.model.widht=3"], ["config.model.widht", "did you mean width?"]),
        (["--config.evals.valid.data.lenght=3"], ["config.evals.valid.data.lenght", "did you mean length"]),
        (["--config.data.name=txjax_python_txt"], ["txjax_python_txt", "txjax_python_text"]),
        (["--config.data.split=trian"], ["trian", "train"]),
        (["--config.mesh.fsdp=3"], ["config.mesh", "1 devices"]),
        (["--config.model.heads=3"], ["config.model.heads", "divisor", "16"]),
        (["--config.model.vocab=100"], ["config.model.vocab", "at least 256"]),
        (["--config.microbatches=3"], ["config.batch_size", "multiple of microbatches = 3"]),
        (["--config.checkpoint.every_steps=7"], ["config.checkpoint.every_steps", "multiple"]),
        (["--config.checkpoint.best=eval/vald/loss"], ["config.checkpoint.best", "eval/valid/loss"]),
        (["--workdirr=x"], ["--workdirr", "--workdir"]),
        (["--until=0"], ["--until: expected a step from 1 on, got 0"]),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else "",
)
def test_a_user_error_is_one_line_and_writes_nothing(config, tmp_path, capsys, flags, words):
    workdir = tmp_path / "run"
    code = main(["train", f"--config={config}", f"--workdir={workdir}", *flags])
    err = capsys.readouterr().err
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    for word in words:
        assert word in err
    assert not workdir.exists()


def test_a_user_error_in_a_child_process(config, tmp_path):
    code, out, err = train(config, tmp_path / "run", "--config.model.widht=3")
    assert (code, out) == (2, "") and not (tmp_path / "run").exists()
    assert err.startswith("txjax: config.model.widht: expected a field of Decoder; did you mean width?")
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_a_disk_that_fills_up_while_saving(config, straight_run, tmp_path):
    """On a real, small file system: one line, exit code 2; with more room the run resumes exactly."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting a small file system takes the rights of root")
    try:
        code, _, err = train_here(config, disk / "run")
        assert code == 2 and "full disk" in err and "Traceback" not in err, err
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        code, _, err = train_here(config, disk / "run")
        assert code == 0, err
        assert rows(disk / "run") == rows(straight_run)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)  # this process has its log open


def test_a_loss_that_explodes_stops_the_run_and_keeps_its_checkpoints(config, tmp_path):
    workdir = tmp_path / "run"
    flags = ["--config.optimizer.peak_lr=1e30", "--config.optimizer.clip=None"]
    code, out, err = train_here(config, workdir, *flags)
    assert code == 1 and "not finite" in out + err and "Traceback" not in err
    flags += ["--config.on_nonfinite=skip", "--config.max_skips=3"]
    code, out, err = train_here(config, tmp_path / "skip", *flags)
    assert code == 1
    assert [row["train/skipped"] for row in rows(tmp_path / "skip")][-1] == 3


def test_a_run_can_start_from_the_parameters_of_another(config, straight_run, tmp_path):
    source, workdir = shutil.copytree(straight_run, tmp_path / "source"), tmp_path / "next"
    flags = [
        f"--config.init_from={source}@best",
        "--config.optimizer.peak_lr=1e-9",
        "--config.evals.valid.every_steps=1",
    ]
    code, out, err = train_here(config, workdir, *flags, "--until=1")
    assert code == 0, err
    assert "layers/block/mlp/up/kernel" in out and "loaded" in out and "numbers from" in err
    best = min(row["eval/valid/loss"] for row in rows(straight_run) if "eval/valid/loss" in row)
    assert rows(workdir)[0]["eval/valid/loss"] == pytest.approx(best, rel=1e-4)
    shutil.rmtree(source)  # it resumes from its own steps without the source
    code, out, err = train_here(config, workdir, *flags, "--until=2")
    assert code == 0 and "resuming at step 1" in err and "loaded" not in out, err
    assert main(["evaluate", f"--workdir={workdir}"]) == 0


def test_mistakes_of_init_from_leave_nothing(config, straight_run, tmp_path, capsys):
    for flags, words in (
        (
            [f"--config.init_from={straight_run}", "--config.model.width=32"],
            ["embed/embedding", "[256, 32]", "[256, 16]"],
        ),
        ([f"--config.init_from={tmp_path}"], ["config.init_from", "config.json"]),
    ):
        code = main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags])
        err = capsys.readouterr().err
        assert code == 2 and len(err.strip().splitlines()) == 1 and not (tmp_path / "run").exists(), err
        assert all(word in err for word in words), err
