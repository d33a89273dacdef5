"""Checkpoints without the frozen parameters that came unchanged from another run: small, exact, useless without it."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import traverse_util

from txjax import config as configs
from txjax.__main__ import main
from txjax.checkpoint import Checkpoints, Store
from txjax.checkpoint.origins import origins_of_record
from txjax.cli.merging import weights
from txjax.io import digest
from txjax.train.population.population import train_together
from txjax.types import flat_paths

from helpers import runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turn("frozen origin"),
    pytest.mark.claim("Transfer", "checkpoints without frozen parameters: size, exact resume, chains, refusals"),
]

SIZES = ("--config.model.width=64", "--config.model.depth=2", "--config.batch_size=4", "--config.num_steps=4")
SIZES += ("--config.checkpoint.every_steps=2", "--config.evals.valid.every_steps=2")
NORMS = ("--config.optimizer.groups=(Group(pattern='.*norm.*'), Group(pattern='(?!.*norm).*', trainable=False))",)
ORIGIN = "--config.checkpoint.frozen=origin"


def size(workdir: Path, step: int) -> int:
    return sum(path.stat().st_size for path in Store(workdir).path(step).rglob("*") if path.is_file())


def train(config: Path, workdir: Path, *flags: str) -> tuple[str, str]:
    code, out, err = runs.train_here(config, workdir, *SIZES, *flags)
    assert code == 0, err
    return out, err


def score(workdir: Path) -> float:
    code, out, err = runs.command("evaluate", f"--workdir={workdir}", "--json")
    assert code == 0, err
    return json.loads(out)["eval/valid/loss"]


def refused(*words: str) -> str:
    """The line of a command that ends with a user error."""
    code, _, err = runs.command(*words)
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    return err


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory) -> Path:
    """A run `base`, and two that train its norms only: `saved` saves everything in every step, `small` does not."""
    folder = tmp_path_factory.mktemp("runs")
    train(config, folder / "base", "--config.num_steps=2")
    for name, flags in (("saved", ()), ("small", (ORIGIN,))):
        train(config, folder / name, f"--config.init_from={folder / 'base'}@2", *NORMS, *flags)
    return folder


@pytest.fixture
def moved(folder, tmp_path) -> Path:
    """A copy of these runs. What `small` names as its origin is still the first `base`."""
    return shutil.copytree(folder, tmp_path / "runs")


def test_a_tenth_of_the_size_and_the_same_run(folder):
    assert runs.rows(folder / "small") == runs.rows(folder / "saved")
    assert size(folder / "small", 4) < 0.1 * size(folder / "saved", 4)
    assert score(folder / "small") == score(folder / "saved")
    records = [Store(folder / name).record(4) for name in ("small", "saved")]
    assert records[0]["arrays"] == records[1]["arrays"]
    (origin,) = origins_of_record(records[0])
    assert (origin.run, origin.step) == (str(folder / "base"), 2) and not origins_of_record(records[1])
    assert all(at.startswith("weights/frozen/") for at in origin.arrays)
    for name in ("transfer.json", "manifest.json"):
        written = json.loads((folder / "small" / name).read_text())
        (found,) = written["origins" if name == "transfer.json" else "init_from"]
        assert (found["run"], found["step"], found["digest"]) == (origin.run, 2, origin.digest)


def test_it_resumes_exactly_and_stays_small(config, folder, moved):
    workdir = moved / "small"
    shutil.rmtree(workdir / "checkpoints" / "4")
    _, err = train(config, workdir, f"--config.init_from={folder / 'base'}@2", *NORMS, ORIGIN)
    assert "resuming at step 2" in err
    assert runs.rows(workdir) == runs.rows(folder / "saved")
    assert size(workdir, 4) < 0.1 * size(folder / "saved", 4)
    assert json.loads((workdir / "manifest.json").read_text())["init_from"][0]["step"] == 2


def test_a_chain_leads_to_where_the_bytes_are(config, folder, moved):
    """A run that starts from `small` has the frozen parameters of `base`, and doesn't need `small` to have them."""
    flags = (f"--config.init_from={moved / 'small'}", *NORMS, ORIGIN, "--config.num_steps=2")
    train(config, moved / "next", *flags)
    shutil.rmtree(moved / "small")
    found = origins_of_record(Store(moved / "next").record(2))
    assert [origin.run for origin in found] == [str(folder / "base")]
    actions = {row["action"] for row in json.loads((moved / "next" / "transfer.json").read_text())["arrays"]}
    assert actions == {"loaded"}
    small, after = (weights(Store(workdir), step) for workdir, step in ((folder / "small", 4), (moved / "next", 2)))
    for path, x in flat_paths(after).items():
        assert ("norm" in path) or x.tobytes() == flat_paths(small)[path].tobytes(), path


def test_the_whole_model_is_exported(folder):
    small, saved = (flat_paths(weights(Store(folder / name), 4)) for name in ("small", "saved"))
    assert small.keys() == saved.keys()
    assert all(x.tobytes() == saved[path].tobytes() for path, x in small.items())


def test_the_mean_of_checkpoints_has_the_whole_model(folder, tmp_path):
    means = []
    for name in ("small", "saved"):
        code, _, err = runs.command("average", f"--workdir={folder / name}", "--last=2", f"--to={tmp_path / name}")
        assert code == 0, err
        means.append(flat_paths(weights(Store(tmp_path / name), 4)))
    assert not origins_of_record(Store(tmp_path / "small").record(4)) and means[0].keys() == means[1].keys()
    assert all(x.tobytes() == means[1][path].tobytes() for path, x in means[0].items())


def away(base: Path) -> None:
    base.rename(base.with_name("elsewhere"))


def step_removed(base: Path) -> None:
    shutil.rmtree(base / "checkpoints" / "2")


def another(base: Path) -> None:
    """The same step of another run, undamaged."""
    step_removed(base)
    shutil.copytree(base.with_name("saved") / "checkpoints" / "2", base / "checkpoints" / "2")


def damaged(base: Path) -> None:
    files = (path for path in (base / "checkpoints" / "2" / "arrays").rglob("*") if path.is_file())
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (away, "got 'no folder"),
        (step_removed, "got 'that step was removed'"),
        (another, "got 'another checkpoint'"),
        (damaged, "got 'damaged files: arrays/"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_without_its_origin_it_is_refused(config, moved, tmp_path, harm, words):
    """By every command that reads it, before anything compiles; its own files are left as they are."""
    base, small = moved / "base", moved / "small"
    changed(small, run=str(base))
    harm(base)
    same = (f"--config={config}", *SIZES, *NORMS, ORIGIN)
    for command in (
        ("evaluate", f"--workdir={small}"),
        ("export", f"--workdir={small}", f"--to={tmp_path / 'out'}"),
        ("train", f"--workdir={small}", *same, "--allow_config_change"),
        ("train", f"--workdir={tmp_path / 'next'}", *same, f"--config.init_from={small}"),
    ):
        err = refused(*command)
        assert words in err and f"step 2 of {base}" in err and "bring that folder back" in err, err
    assert Store(small).steps() == [2, 4] and not (tmp_path / "next").exists()
    code, out, _ = runs.command("checkpoint", "verify", f"--workdir={small}", "--json")
    assert code == 1 and all(words in row["faults"][0] for row in json.loads(out))


def changed(workdir: Path, **facts: str) -> None:
    """Changes what the records of a run say of its origin."""
    for record in workdir.glob("checkpoints/*/record.json"):
        found = json.loads(record.read_text())
        found["origins"][0] |= facts
        record.write_text(json.dumps(found, indent=1))
        digest.commit(record.parent)


def test_when_a_step_has_everything(moved, caplog):
    """With `saved` from now on, and with `origin` once the origin is gone."""
    workdir = moved / "small"
    changed(workdir, run=str(moved / "base"))
    store = Store(workdir, Checkpoints(frozen="origin", keep=9))
    arrays = store.record(4)["arrays"]
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = {path: jax.ShapeDtypeStruct(*spec, sharding=one) for path, spec in arrays.items() if "weights" in path}
    wanted = traverse_util.unflatten_dict(abstract, sep="/")
    parts = store.load_some(4, wanted)
    for step, frozen in ((6, "origin"), (8, "saved"), (10, "origin")):
        store.options.frozen = frozen
        if step == 10:
            step_removed(moved / "base")
        store.save_parts(step, parts, {})
        store.wait()
    assert [bool(origins_of_record(store.record(step))) for step in (6, 8, 10)] == [True, False, False]
    assert [record.getMessage()[:35] for record in caplog.records] == ["frozen parameters are saved too: st"]
    for again in (flat_paths(store.load(step, wanted)) for step in (8, 10)):
        assert all(x.tobytes() == again[path].tobytes() for path, x in flat_paths(parts).items())


def test_folders_that_move_together_find_each_other(folder, moved):
    assert origins_of_record(Store(moved / "small").record(4))[0].relative == "../base"
    changed(moved / "small", run="/nowhere")
    assert score(moved / "small") == score(folder / "saved")
    changed(moved / "small", relative="../bases")
    assert "got 'no folder /nowhere'" in refused("evaluate", f"--workdir={moved / 'small'}")


def test_members_of_a_population_share_an_origin(config, folder, tmp_path):
    flags = [*SIZES, *NORMS, ORIGIN, f"--config.init_from={folder / 'base'}@2"]
    experiments = [configs.load(str(config), [*flags, f"--config.optimizer.peak_lr={lr}"]) for lr in (0.001, 0.01)]
    workdirs = [tmp_path / "a", tmp_path / "b"]
    assert train_together(experiments, workdirs, until=2).code == 0
    assert train_together(experiments, workdirs).code == 0
    assert [size(workdir, 4) < 0.1 * size(folder / "saved", 4) for workdir in workdirs] == [True, True]
    found = [flat_paths(weights(Store(workdir), 4)) for workdir in (folder / "saved", *workdirs)]
    for path, x in found[0].items():
        np.testing.assert_allclose(x, found[1][path], rtol=2e-4, atol=2e-6, err_msg=path)
        assert "norm" in path or x.tobytes() == found[2][path].tobytes(), path


def test_runs_with_and_without_them_write_side_by_side(folder):
    def texts(run: str, *flags: str) -> list[str]:
        words = ("generate", f"--workdir={folder / run}", "--prompt=def ", "--length=8", "--json", *flags)
        code, out, err = runs.command(*words)
        assert code == 0, err
        return [json.loads(line)["texts"] for line in out.splitlines()]

    (alone,) = texts("saved")
    for first, second in (("small", "saved"), ("saved", "small"), ("saved", "saved")):
        assert texts(first, "--adapters", str(folder / second)) == [alone, alone]


def test_kills_change_nothing(config, folder, tmp_path, capsys, monkeypatch):
    for variable, value in runs.environment().items():
        monkeypatch.setenv(variable, value)
    flags = [*SIZES, *NORMS, ORIGIN, f"--config.init_from={folder / 'base'}@2", "--config.num_steps=8"]
    code = main(["verify", f"--config={config}", "--json", "--steps=8", "--kills=1", f"--workdir={tmp_path}", *flags])
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert code == 0 and result["exact"] and len(result["interruptions"]) == 1, result
    assert origins_of_record(Store(tmp_path / "killed-1").record(8))
