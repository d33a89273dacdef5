"""Every source gives the same global batches to any number of processes, and after a resume by fewer."""

import dataclasses
import itertools

import numpy as np
import pytest

from txjax.cli.resume_trial import equal_arrays
from txjax.data import TFDS, JSONLines, Mixture, Portion, portioned_batches, train_batches
from txjax.data.sources import file_source
from txjax.data.sources.record_source import RecordSource

from helpers import runs
from helpers.data_sets import write_records
from helpers.file_kinds import CLASSES, Films, data_of, kinds, rows, source_of

pytestmark = pytest.mark.claim(
    "Data",
    "every source: the same global batches for 1, 2 and 4 processes, when fewer resume, and around a change of them",
)

SIZE = 8  # rows of a global batch
LENGTHS = ("length", "samples")  # fields of data sets
STEPS = 8  # more than an epoch has


def write_source(kind: type[RecordSource], folder) -> RecordSource:
    if kind is Films:
        return Films()
    if kind is TFDS:
        import tensorflow_datasets as tfds

        features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=list(CLASSES))}
        records = [{"text": row["text"], "label": row["label"]} for row in rows()]
        return TFDS("films", write_records(folder, "films", features, {"train": records}))
    return source_of(kind, folder, rows())


def global_batches(source: RecordSource, monkeypatch, processes: int, start: int, steps: int) -> list[dict]:
    """Batches put together from the shares of several processes, each of which opens the source for itself."""
    shares = []
    for process in range(processes):
        monkeypatch.setattr(file_source, "_opened", {})
        share = range(process * SIZE // processes, (process + 1) * SIZE // processes)
        batches = train_batches(data_of(source).open(), batch_size=SIZE, seed=3, start_step=start, rows=share)
        shares.append(list(itertools.islice(batches, steps)))
        batches.close()
    return [
        {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} for parts in zip(*shares, strict=True)
    ]


def assert_equal(left: list[dict], right: list[dict]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], strict=True)


@pytest.mark.parametrize("kind", [*kinds(), Films, TFDS], ids=lambda kind: kind.__name__)
def test_any_number_of_processes_and_a_resume_by_fewer(kind, tmp_path, monkeypatch):
    source = write_source(kind, tmp_path)
    whole = global_batches(source, monkeypatch, 1, 0, STEPS)
    assert len({number for batch in whole for number in batch["id"].tolist()}) > 40
    assert all(row.any() for batch in whole for row in batch["weights"])
    for processes in (2, 4):
        assert_equal(global_batches(source, monkeypatch, processes, 0, STEPS), whole)
    resumed = [(4, 0, 3), (2, 3, 3), (1, 6, 2)]  # processes, first step, steps
    assert_equal([batch for part in resumed for batch in global_batches(source, monkeypatch, *part)], whole)


def lengthened(data):
    """The same examples with twice the length; pictures stay as they are."""
    return dataclasses.replace(data, **{name: 2 * getattr(data, name) for name in LENGTHS if hasattr(data, name)})


@pytest.mark.parametrize("kind", [*kinds(), Films, TFDS], ids=lambda kind: kind.__name__)
def test_weights_size_and_length_that_change_at_a_step_are_the_same_from_the_steps_around_it(kind, tmp_path):
    """As a run has them that was killed before the change, at it, or after it."""
    data = data_of(write_source(kind, tmp_path))
    change = 3
    sizes = (
        (0, data, {"first": 3, "second": 1}, SIZE),
        (change, lengthened(data), {"first": 1, "second": 3}, SIZE + 4),
    )
    portions = [
        Portion(step, Mixture({"first": part, "second": part}, weights).open(), size)
        for step, part, weights, size in sizes
    ]

    def read(start: int) -> list[dict]:
        batches = portioned_batches(portions, seed=3, start_step=start)
        part = list(itertools.islice(batches, STEPS - start))
        batches.close()
        return part

    whole = read(0)
    assert [len(batch["id"]) for batch in whole] == [SIZE] * change + [SIZE + 4] * (STEPS - change)
    for start in (change - 1, change, change + 1):
        assert_equal(read(start), whole[start:])


@pytest.mark.slow
def test_two_processes_train_on_lines_as_one_does_and_one_resumes(tmp_path):
    """Each from an empty cache: the index is built by one of the processes."""
    source = source_of(JSONLines, tmp_path, rows(300))
    config = tmp_path / "lines.py"
    config.write_text(runs.CONFIG)
    flags = [f"--config.data.source={source.paths}", f"--config.evals.valid.data.source={source.paths}"]
    one, two = (tmp_path / name / "run" for name in ("one", "two"))
    variables = {name: {"TXJAX_CACHE_DIR": str(tmp_path / name / "cache")} for name in ("one", "two")}
    several = runs.start_several(2, config, two, "--until=10", *flags, variables=variables["two"])
    assert [code for code, _, _ in runs.ended(several)] == [0, 0]
    assert len(list((tmp_path / "two" / "cache" / "rows").glob("*/rows.npz"))) == 1
    for workdir, cache in ((two, "two"), (one, "one")):
        single = runs.start(config, workdir, "--until=14", *flags, devices=2, variables=variables[cache])
        ((code, _, err),) = runs.ended([single])
        assert code == 0 and ("resuming at step 10" in err) == (workdir == two), err
    assert runs.rows(two) == runs.rows(one)
    same, count = equal_arrays(one, two, 14)
    assert same == count > 0
