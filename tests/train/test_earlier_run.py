"""A run from scratch in a workdir whose checkpoints are gone writes over nothing."""

import shutil

from helpers.runs import rows, train_here


def test_no_file_of_a_run_without_checkpoints_is_lost(config, straight_run, tmp_path):
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    sample, events = workdir / "samples" / "valid" / "10.txt", workdir / "tensorboard" / "events.1"
    for path in (sample, events):
        path.parent.mkdir(parents=True)
        path.write_text(path.name)
    notes = {name: (workdir / name).read_bytes() for name in ("metrics.jsonl", "config.json", "manifest.json")}
    for number in (1, 2):
        shutil.rmtree(workdir / "checkpoints")
        code, _, err = train_here(config, workdir, "--until=2")
        assert code == 0 and len(rows(workdir)) == 2, err
        kept = (
            f"{workdir / 'metrics.jsonl'} has {40 if number == 1 else 2} rows and there is no checkpoint: it is kept as"
        )
        assert f"{kept} metrics.jsonl.before-{number}\n" in err
        names = "config.json, manifest.json" + (", tensorboard, samples" if number == 1 else "")
        assert f"{names} of the run before are kept as NAME.before-{number}\n" in err
        assert all((workdir / f"{name}.before-1").read_bytes() == text for name, text in notes.items())
    assert (workdir / "samples.before-1" / "valid" / "10.txt").read_text() == "10.txt"
    assert (workdir / "tensorboard.before-1" / "events.1").read_text() == "events.1"
    assert not sample.exists() and not events.exists()
    code, _, err = train_here(config, workdir, "--until=3")
    assert code == 0 and "before" not in err and len(rows(workdir)) == 3, err  # a checkpoint says which rows stay
