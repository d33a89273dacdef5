"""Files of a workdir that are truncated, invalid or can't be written: a one-line error, or a warning if optional."""

import errno
import json
import logging
import os
import shutil

import pytest
from matplotlib.figure import Figure

from txjax.__main__ import main
from txjax.log import Log, setup_logging
from txjax.train.run import goodput
from txjax.train.run.goodput import Goodput

from helpers import runs


@pytest.fixture
def run(straight_run, tmp_path):
    return shutil.copytree(straight_run, tmp_path / "run")


CUT = '{"a": 1, "b'
ODD = ["", CUT, "[]", "3", "null", "[" * 100_000, '"x"', "\0\0\0"]


def commands(run, config) -> dict[str, list[str]]:
    return {
        "train": ["train", f"--config={config}", f"--workdir={run}"],
        "evaluate": ["evaluate", f"--workdir={run}"],
        "generate": ["generate", f"--workdir={run}"],
        "export": ["export", f"--workdir={run}", f"--to={run}/there"],
        "checkpoint": ["checkpoint", "list", f"--workdir={run}"],
        "report": ["report", str(run)],
        "diff": ["diff", str(run), str(run.parent / "other")],
        "compare": ["compare", str(run), str(run.parent / "other")],
        "scaling": ["scaling", "fit", f"--data={run}"],
    }


READERS = [
    ("config.json", name)
    for name in ("train", "evaluate", "generate", "export", "checkpoint", "report", "diff", "compare")
] + [("manifest.json", name) for name in ("train", "report", "diff")]


@pytest.mark.parametrize(("file", "name"), READERS)
def test_a_file_that_is_no_json_is_one_line(run, straight_run, config, capsys, file, name):
    words = commands(run, config)[name]
    (run.parent / "other").symlink_to(straight_run)
    for text in [CUT] if name == "train" else ODD:
        (run / file).write_text(text)
        assert main(words) == 2, text[:9]
        err = capsys.readouterr().err.splitlines()
        assert str(run / file) in err[-1] and "Traceback" not in err, err
        assert len(err) == 1 or name == "train"


VALUES = {
    "config.json": [
        {},
        {"class": 3},
        {"class": "txjax.experiment.Experiment"},
        {"model": 3, "data": 4, "num_steps": "x", "checkpoint": 5, "evals": []},
    ],
    "manifest.json": [{"data": []}, {"created": 3, "versions": 4, "parameters": "x", "git": [], "data": {"train": 1}}],
}


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), READERS)
def test_json_of_another_kind_is_one_line_at_most(run, straight_run, config, capsys, file, name):
    words = commands(run, config)[name]
    (run.parent / "other").symlink_to(straight_run)
    for value in VALUES[file][-1:] if name == "train" else VALUES[file]:
        (run / file).write_text(json.dumps(value))
        assert main(words) in (0, 2), value


@pytest.mark.parametrize(
    "field", ["model", "data", "objective", "optimizer", "mesh", "evals", "checkpoint", "trackers"]
)
def test_a_field_of_another_kind_is_one_line(run, capsys, field):
    config = json.loads((run / "config.json").read_text())
    for value in (3, "x", None, [], {"class": "txjax.optim.AdamW"}):
        (run / "config.json").write_text(json.dumps(config | {field: value}))
        code = main(["evaluate", f"--workdir={run}"])
        err = capsys.readouterr().err
        assert code in (0, 2) and len(err.splitlines()) <= 1, (value, err)


ROWS = ['{"step": "x"}', '{"step": 7.5}', '{"step": 50, "a": {}}', '{"step": null}', "[7]"]
ROWS += [f'{{"step": 50, "a": 1{"0" * 400}}}', f'{{"step": 1{"0" * 400}}}', '{"a": ' + "[" * 9000]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_an_odd_row_is_one_line(run, straight_run, capsys, row):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(row + "\n")
    for words in (["report", str(run)], ["diff", str(run), str(straight_run)]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert f"metrics.jsonl:41: expected one JSON object, got '{row[:4]}" in err and len(err.splitlines()) == 1


def test_odd_files_of_a_sweep_are_one_line(run, tmp_path, capsys):
    folder = tmp_path / "sweep"
    folder.mkdir()
    run.rename(folder / "a")
    point = {"name": "a", "digest": "0", "values": {"seed": 1}, "num_steps": 40, "flops_per_step": 1}
    texts = [*ODD, '{"points": 3}', '{"points": [{"name": "a"}]}', "{}"]
    for name, invalid in (("a/config.json", ODD[1:2]), ("sweep.json", texts)):
        for text in invalid:
            (folder / "sweep.json").write_text(json.dumps({"points": [point]}))
            (folder / name).write_text(text)
            assert main(["report", str(folder)]) == 2, text
            err = capsys.readouterr().err
            assert str(folder / name) in err and len(err.splitlines()) == 1, err


POINT = {"name": "a", "digest": "0", "values": {"seed": 1}, "num_steps": 40, "flops_per_step": 1}
ANY = [
    5,
    -1,
    1.5,
    True,
    None,
    "",
    "x",
    "\0",
    "x" * 5000,
    [],
    [1],
    {"a": 1},
    float("nan"),
    float("inf"),
    10**30,
    10**400,
]
FITS = {"name": str, "digest": str, "values": dict, "num_steps": int, "flops_per_step": int}


@pytest.mark.parametrize("key", POINT)
def test_a_point_of_another_kind_is_one_line(key, tmp_path, capsys):
    for value in ANY:
        if type(value) is FITS[key] and value not in (-1, 10**400, "", "\0", "x" * 5000):
            continue
        if key == "digest" and isinstance(value, str):
            continue
        (tmp_path / "sweep.json").write_text(json.dumps({"points": [POINT | {key: value}]}))
        assert main(["report", str(tmp_path)]) == 2, value
        (err,) = capsys.readouterr().err.splitlines()
        assert f"sweep.json: points[0].{key}: expected" in err, err


@pytest.mark.parametrize("points", [5, None, {}, [5], [None], [[]], [{}], [POINT | {"more": 1}], [POINT, POINT]])
def test_points_of_another_kind_are_one_line(points, tmp_path, capsys):
    (tmp_path / "sweep.json").write_text(json.dumps({"points": points}))
    assert main(["report", str(tmp_path)]) == 2
    (err,) = capsys.readouterr().err.splitlines()
    assert "sweep.json: points" in err


@pytest.mark.slow
def test_any_value_in_the_files_of_a_run_is_one_line_at_most(run, straight_run, capsys):
    for file in ("config.json", "manifest.json"):
        known = json.loads((run / file).read_text())
        for key in known:
            for value in ANY[:1] + ANY[4:5] + ANY[9:]:
                (run / file).write_text(json.dumps(known | {key: value}))
                for words in (["diff", str(run), str(straight_run)], ["scaling", "fit", f"--data={run}"]):
                    assert main(words) in (0, 2), (key, value)
                    assert len(capsys.readouterr().err.splitlines()) <= 1, (key, value)
        (run / file).write_text(json.dumps(known))


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_a_damaged_goodput_file_is_replaced(tmp_path, caplog, text):
    (tmp_path / goodput.FILE).write_text(text)
    book = Goodput()
    book.resume([tmp_path], 0, {}, 0)
    assert goodput.read(tmp_path)["starts"] == 1 and "goodput.json is damaged" in caplog.text
    assert (tmp_path / "goodput.json.damaged").read_text() == text


def test_invalid_numbers_in_goodput_json_are_ignored(tmp_path):
    text = '{"step": 1e999, "data": -1, "save": true, "lost": NaN, "restore": 2, "starts": 1' + "0" * 400 + "}"
    (tmp_path / goodput.FILE).write_text(text)
    assert goodput.read(tmp_path) == {"restore": 2}


def failing(number: int):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


def test_optional_files_that_fail_stop_no_run(run, config, monkeypatch, capsys, caplog):
    """Neither goodput.json nor curves.png can be written; the run continues to its end."""
    monkeypatch.setattr(goodput, "replace_text", failing(errno.EIO))
    monkeypatch.setattr(Figure, "savefig", failing(errno.ENOSPC))
    shutil.rmtree(run / "checkpoints" / "40")
    assert main(["train", f"--config={config}", f"--workdir={run}", "--config.trackers=(Curves(),)"]) == 0
    assert [row["step"] for row in runs.rows(run)] == [*range(1, 41)]
    assert capsys.readouterr().out.endswith("done: step 40\n")
    for name, number in (("goodput.json", errno.EIO), ("curves.png", errno.ENOSPC)):
        (message,) = [line for line in caplog.messages if name in line]  # once
        assert f"could not be written: {os.strerror(number)}; the run continues" in message


def test_other_files_that_fail_are_one_line(run, config, monkeypatch, capsys):
    from txjax.train.run import workdir

    def fail(path, _):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(workdir, "replace_text", fail)
    assert main(["train", f"--config={config}", f"--workdir={run}"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"txjax: {run}/config.json: Input/output error"


def test_a_full_disk_at_a_row_names_the_log(tmp_path):
    with pytest.raises(OSError, match="metrics.jsonl") as caught, Log(tmp_path, (), 10) as log:
        log.file.close()
        log.file = open("/dev/full", "w", buffering=1)  # noqa: SIM115, closed by the log
        log.write(1, {})
    assert caught.value.errno == errno.ENOSPC


def test_a_message_log_that_cannot_be_written_is_closed(tmp_path, monkeypatch, capsys):
    """One that can't be opened, and one whose disk is full later."""
    for name in ("", "txjax"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    (tmp_path / "file").write_text("")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "process_0.log").symlink_to("/dev/full")
    setup_logging(tmp_path, beside=[tmp_path / "file"])
    for word in ("one", "two"):
        logging.getLogger("txjax").info(word)
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[-2:] == ["one", "two"] and len(lines) == 4 and all("messages go only to stderr" in x for x in lines[:2])
    )
