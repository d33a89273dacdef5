"""`txjax diff` on runs with known differences."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from txjax.__main__ import main
from txjax.commands import diff
from txjax.train.run import workdir
from txjax.types import UserError

CONFIG = {"class": "txjax.experiment.Experiment", "optimizer": {"peak_lr": 0.1}, "seed": 1}
MANIFEST = {
    "created": "2025-01-01",
    "command": ["txjax"],
    "git": {"commit": "abc", "dirty": False},
    "python": "3.11.7",
    "versions": {"jax": "0.10.2"},
    "devices": {"kind": "cpu", "count": 8},
    "data": {"train": "f0"},
}
ROWS = [
    {"step": s, "time": s, "train/batch_hash": 10 * s, "train/loss": 5.0 / s, "train/lr": 0.1, "perf/step_ms": s}
    for s in range(1, 6)
]


def make_run(folder: Path, config: dict, manifest: dict, rows: list[dict]) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def differences(tmp_path: Path, capsys: pytest.CaptureFixture[str], *other: Any) -> list[dict]:
    a, b = make_run(tmp_path / "a", CONFIG, MANIFEST, ROWS), make_run(tmp_path / "b", *other)
    assert diff.run([a, b, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["differences"]


def test_equal_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = [row | {"time": 7.0, "perf/step_ms": 9} for row in ROWS]
    a = make_run(tmp_path / "a", CONFIG, MANIFEST, ROWS)
    b = make_run(tmp_path / "b", CONFIG, MANIFEST | {"created": "2026-01-01", "command": ["other"]}, later)
    assert diff.run([a, b]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_causes_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIG | {"optimizer": {"peak_lr": 0.2}, "extra": None}
    manifest = MANIFEST | {
        "git": {"commit": "abc", "dirty": True},
        "data": {"train": "f1"},
        "versions": {"jax": "0.12.0"},
        "devices": {"kind": "cpu", "count": 1},
    }
    rows = [row | ({"train/loss": "NaN", "train/batch_hash": 0} if row["step"] >= 3 else {}) for row in ROWS]
    assert differences(tmp_path, capsys, config, manifest, rows) == [
        {"kind": "config", "name": "optimizer.peak_lr", "a": 0.1, "b": 0.2},
        {"kind": "config", "name": "extra", "b": None},
        {"kind": "code", "name": "git.dirty", "a": False, "b": True},
        {"kind": "data", "name": "data.train", "a": "f0", "b": "f1"},
        {"kind": "versions", "name": "versions.jax", "a": "0.10.2", "b": "0.12.0"},
        {"kind": "devices", "name": "devices.count", "a": 8, "b": 1},
        {"kind": "metrics", "name": "train/batch_hash", "a": 30, "b": 0, "step": 3},
        {"kind": "metrics", "name": "train/loss", "a": 5.0 / 3, "b": "NaN", "step": 3},
    ]


def test_only_common_steps_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row | {"train/accuracy": 0.5} for row in ROWS[1:3]]
    found = differences(tmp_path, capsys, CONFIG, MANIFEST, rows)
    assert found == [{"kind": "metrics", "name": "train/accuracy", "b": 0.5, "step": 2}]


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    a = make_run(tmp_path / "a", CONFIG, MANIFEST, ROWS)
    b = make_run(tmp_path / "b", CONFIG | {"new": 3}, MANIFEST, [row | {"train/lr": 0.3} for row in ROWS])
    diff.run([a, b])
    lines = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    assert ["config: new", "", "(none)", "3"] in lines
    assert ["metrics: train/lr", "1", "0.1", "0.3"] in lines


WORDS = "[/INST] [red]x[/red] :smile: \x1b[31m\x9b2J\r\u202egnp.exe\na|b"
SHOWN = r"[/INST] [red]x[/red] :smile: \x1b[31m\x9b2J\r\u202egnp.exe\na|b"


def test_control_characters_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """No markup, no escape sequence: `[/INST]` is a token of chats, and configs are not trusted."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("FORCE_COLOR", "1")
    name = "run [bold] \x1b]0;title\x07"
    a = make_run(tmp_path / name, CONFIG | {"data": WORDS}, MANIFEST, ROWS)
    b = make_run(tmp_path / "b", CONFIG | {WORDS: 1}, MANIFEST, ROWS)
    assert main(["diff", a, b]) == 0
    out = capsys.readouterr().out
    assert f"config: data │               │ {SHOWN} " in re.sub(" +│", " │", out).replace("│ │", "│               │")
    assert f"config: {SHOWN} " in out and r"run [bold] \x1b]0;title\x07" in out
    assert main(["diff", a, a]) == 2
    err = capsys.readouterr().err
    assert r"run [bold] \x1b]0;title\x07" in err and err.count("\n") == 1


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a run with metrics.jsonl"):
        diff.run([str(tmp_path), str(tmp_path / "other")])
    with pytest.raises(UserError, match="required: B"):
        diff.run([str(tmp_path)])


def test_the_environment_and_the_compiler_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (make_run(tmp_path / name, CONFIG, {}, ROWS) for name in "ab")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    monkeypatch.setenv("JAX_HUB_TOKEN", "one secret")
    workdir.write_manifest(Path(a), {}, {}, {"xla_cpu_enable_fast_math": True})
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_x=1 --hub_token=another")
    monkeypatch.setenv("JAX_HUB_TOKEN", "another secret")
    workdir.write_manifest(Path(b), {}, {}, {})
    assert main(["diff", a, b, "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["differences"] == [
        {"kind": "environment", "name": "environment.NVIDIA_TF32_OVERRIDE", "a": "0"},
        {"kind": "environment", "name": "environment.LIBTPU_INIT_ARGS", "b": "--xla_x=1 --hub_token=(hidden)"},
        {"kind": "compiler", "name": "compiler_options.xla_cpu_enable_fast_math", "a": True},
    ]
    (Path(b) / "manifest.json").write_text(json.dumps(MANIFEST))  # of an older release, which recorded neither
    assert main(["diff", a, b, "--json"]) == 0
    assert not {"environment", "compiler"} & {d["kind"] for d in json.loads(capsys.readouterr().out)["differences"]}


def test_the_manifest_has_environment_and_compiler_options(straight_run: Path) -> None:
    manifest = json.loads((straight_run / "manifest.json").read_text())
    assert "xla_force_host_platform_device_count" in manifest["environment"]["XLA_FLAGS"]
    assert "compiler_options" in manifest
