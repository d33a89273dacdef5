"""Checkpoints: a saved step is restored bit for bit, or the step before it is."""

import dataclasses
import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.checkpoint import Checkpoints, Store, split
from txjax.errors import RunError, UserError
from txjax.io import digest

from helpers.train_states import abstract, assert_same, make, save


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path, Checkpoints(keep=2, best="eval/valid/loss"))
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 2.5)):
        store.save(step, make(step), {"data": {"position": 8 * step}, "metrics": {"eval/valid/loss": loss}})
    store.wait()
    return store


def test_the_newest_and_the_best_are_kept(store):
    assert store.steps() == [2, 3, 4] and store.best() == 2
    assert store.choose("last") == 4 and store.choose("best") == 2 and store.choose("3") == 3
    with pytest.raises(UserError, match=r"one of \[2, 3, 4\]"):
        store.choose("1")


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("mode", "scores", "best", "left"),
    [
        ("max", [NAN, 0.5, 0.9, 0.6], 3, [3, 4]),
        ("min", [NAN, 0.5, 0.1, 0.6], 3, [3, 4]),
        ("max", [0.5, INF, 0.9, NAN], 3, [3, 4]),
        ("min", [0.5, -INF, 0.1, NAN], 3, [3, 4]),
        ("max", [0.9, NAN, 0.9, 0.6], 1, [1, 4]),
        ("min", [None, 0.5, None, 0.6], 2, [2, 4]),
        ("max", [NAN, None, -INF, NAN], None, [4]),
    ],
)
def test_a_score_that_is_not_finite_is_never_the_best(tmp_path, mode, scores, best, left):
    store = Store(tmp_path, Checkpoints(keep=1, best="eval/valid/score", best_mode=mode))
    for step, score in enumerate(scores, 1):
        metrics = {} if score is None else {"eval/valid/score": score}
        store.save(step, make(step), {"data": {}, "metrics": metrics})
    store.wait()
    assert store.best() == best and store.steps() == left
    if best is not None:
        assert store.choose("best") == best
        return
    with pytest.raises(UserError, match="got 'best'; no step has a finite eval/valid/score"):
        store.choose("best")


@pytest.mark.mesh
def test_restore_on_any_mesh(store):
    for fsdp in (8, 2):
        state, record = store.restore(abstract(make(0, fsdp)))
        assert_same(state, make(4))
        assert state.params["layer"]["kernel"].addressable_shards[0].data.shape == (8 // fsdp, 4)
        assert record["step"] == 4 and record["data"] == {"position": 32}


def test_a_part_may_be_empty_where_the_step_has_arrays(store):
    weights = split(abstract(make(0)))["weights"]
    for wanted in ({"frozen": {}}, {"frozen": {"head": {}}}, {"params": {}, "frozen": {}}):
        part = store.load_some(3, {"weights": weights | wanted})["weights"]
        assert {name: part[name] for name in wanted} == wanted
        assert set(part) == set(weights)


def test_weights_alone(store):
    part = store.load(3, {"weights": split(abstract(make(0)))["weights"]})
    np.testing.assert_array_equal(part["weights"]["params"]["layer"]["kernel"], make(3).params["layer"]["kernel"])


def test_any_flipped_bit_in_any_file_is_noticed_and_survived(store):
    newest = store.path(4)
    files = [p for p in sorted(newest.rglob("*")) if p.is_file()]
    assert len(files) > 8
    for file in files:
        whole = file.read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1} if whole else ():
            flipped = bytearray(whole)
            flipped[at] ^= 1 << (at % 8)
            file.write_bytes(flipped)
            assert store.faults(4), f"{file} at {at}"
        file.write_bytes(whole)
        if not whole:
            file.write_bytes(b"\0")
            assert store.faults(4), file
            file.write_bytes(whole)
    assert not store.faults(4)
    file = max(files, key=lambda p: p.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1])
    state, record = store.restore(abstract(make(0)))
    assert record["step"] == 3
    assert_same(state, make(3))
    assert store.steps() == [2, 3] and (store.folder / "4.bad").is_dir()


@pytest.mark.parametrize("harm", ["truncate", "delete", "empty", "add"])
def test_a_damaged_folder_is_noticed(store, harm):
    file = store.path(4) / "record.json"
    if harm == "truncate":
        file.write_bytes(file.read_bytes()[:-3])
    elif harm == "delete":
        file.unlink()
    elif harm == "empty":
        file.write_bytes(b"")
    else:
        (store.path(4) / "more").write_text("?")
    assert "record.json" in str(store.faults(4)) or "more was added" in str(store.faults(4))
    with pytest.raises(UserError, match="undamaged"):
        store.choose("4")


def test_all_damaged_is_an_error_and_not_a_fresh_start(store):
    for step in store.steps():
        (store.path(step) / "record.json").write_text("{}")
    for _ in range(2):  # the second time they are set aside already
        with pytest.raises(UserError, match="all damaged"):
            store.restore(abstract(make(0)))


def test_a_save_that_was_cut_off_never_counts(store):
    (store.path(4) / digest.NAME).unlink()
    (store.folder / "9").mkdir()
    assert store.steps() == [2, 3] and store.choose() == 3
    store.clean()
    assert sorted(p.name for p in store.folder.iterdir()) == ["2", "3"]


def test_another_model_is_refused_and_nothing_is_cast(store):
    state = make(0)
    for params, words in (
        ({"layer": {"kernel": jnp.zeros((8, 5))}}, "layer/kernel to be float32\\[8, 5\\], got 'float32\\[8, 4\\]'"),
        ({"layer": {"kernel": jnp.zeros((8, 4), jnp.bfloat16)}}, "bfloat16"),
        ({"layer": {"kernal": jnp.zeros((8, 4))}}, "did you mean weights/params/layer/kernel"),
    ):
        with pytest.raises(UserError, match=words):
            store.restore(abstract(dataclasses.replace(state, params=params)))


def test_a_full_disk_raises_before_anything_is_written(store, monkeypatch):
    usage = shutil.disk_usage(store.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(UserError, match="step 4 is safe"):
        store.save(5, make(5), {"data": {}, "metrics": {}})
    assert store.steps() == [2, 3, 4]


def test_a_save_that_fails_in_the_background_raises_at_the_next_step(store, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(digest, "commit", fail)
    store.save(5, make(5), {"data": {}, "metrics": {}})
    with pytest.raises(UserError, match="full disk"):
        store.wait()
    store.poll()  # raised once
    assert store.steps() == [2, 3, 4] and not store.path(5).exists()


def test_a_disk_that_gives_back_other_bits_costs_no_older_step(store, monkeypatch):
    """A bit flips between writing and reading back: the step is set aside, the run ends, and older steps are kept."""

    def flip(path):
        if path.name == "record.json":
            path.write_bytes(path.read_bytes().replace(b"9.0", b"8.0"))

    with monkeypatch.context() as patched:
        patched.setattr(digest, "evict", flip)
        with pytest.raises(RunError, match="step 5 read back .* differs from what was written; step 4 is safe"):
            save(store, 5)
    assert store.steps() == [2, 3, 4] and (store.folder / "5.bad").is_dir()
    save(store, 6)
    assert store.steps() == [2, 4, 6] and not store.faults(6)


def test_a_damaged_older_step_stops_no_save(store):
    (store.path(2) / "record.json").write_text("{")  # the best one
    (store.path(3) / "record.json").unlink()
    save(store, 5)
    assert {4, 5} <= set(store.steps()) and not store.faults(5)
    assert store.restore(abstract(make(0)))[1]["step"] == 5


def test_older_steps_that_cannot_be_removed_cost_not_the_newest(store, monkeypatch):
    def fail(path, **_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda path, **more: more or fail(path))
        with pytest.raises(RunError, match="Input/output error; step 5 is safe"):
            save(store, 5)
    assert store.steps()[-1] == 5 and not store.faults(5)


def test_a_disk_that_fails_in_the_background_is_one_line(store, monkeypatch):
    """The failed step is not listed later, and the next save works."""

    def fail(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(digest, "commit", fail)
        store.save(5, make(5), {"data": {}, "metrics": {}})
        with pytest.raises(RunError, match="step 5 could not be saved: .*Input/output error; step 4 is safe"):
            store.wait()
    assert store.choose() == 4 and not store.path(5).exists()
    save(store, 5)
    assert store.choose() == 5 and store.restore(abstract(make(0)))[1]["step"] == 5


def test_the_record_is_plain_json(store):
    record = json.loads((store.path(4) / "record.json").read_text())
    assert record["arrays"]["weights/params/layer/kernel"] == [[8, 4], "float32"]
