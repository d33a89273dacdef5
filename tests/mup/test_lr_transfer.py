"""Best learning rates from losses that are known parabolas; undetermined optima."""

import json
import math
from pathlib import Path

import pytest

from txjax.__main__ import main
from txjax.mup.lr_transfer import Point, transfer
from txjax.types import UserError

RATES = [2.0**-i for i in range(9, 2, -1)]


def losses(slope: float, curvature: float = 0.05, widths: tuple[int, ...] = (32, 64, 256)) -> list[Point]:
    """Parabolas in log2 lr whose vertex is at 2^-6 for width 32 and scales as width^slope; two seeds."""
    return [
        Point(w, lr, 3 - math.log2(w) / 10 + noise + curvature * (math.log2(lr) + 6 - slope * math.log2(w / 32)) ** 2)
        for w in widths
        for lr in RATES
        for noise in (-0.01, 0.01)
    ]


@pytest.mark.parametrize(("slope", "transferred"), [(0.0, True), (-0.2, True), (-0.5, False), (0.4, False)])
def test_best_rate_of_parabolas(slope: float, transferred: bool) -> None:
    found = transfer(losses(slope))
    assert found.transferred is transferred
    assert found.slope == pytest.approx(slope, abs=1e-6) and found.error == pytest.approx(0, abs=1e-6)
    for optimum in found.optima:
        moved = slope * math.log2(optimum.width / 32)
        assert math.log2(optimum.lr) == pytest.approx(-6 + moved, abs=1e-6)
        assert optimum.loss == pytest.approx(3 - math.log2(optimum.width) / 10)
        assert optimum.penalty == pytest.approx(0.05 * moved**2, abs=1e-9)
    assert found.verdict.startswith("transferred: " if transferred else "moved: ")


def test_optimum_at_the_edge_is_undetermined() -> None:
    found = transfer(losses(-1.5))
    assert found.transferred is None and found.slope is None
    assert found.warnings == ["width 256: the lowest loss is at the smallest lr, 0.00195312: extend the range of rates"]
    assert found.verdict == "undetermined: " + found.warnings[0]
    bent = transfer(losses(0.0, curvature=-0.05))
    assert bent.transferred is None and len(bent.warnings) == 3


def test_scattered_optima_are_undetermined() -> None:
    """The middle width's best rate is four times the others': no slope, and an error of it above the limit."""
    middle = [Point(64, p.lr, p.loss) for p in losses(0.5, widths=(512,))]
    found = transfer([*losses(0.0, widths=(32, 128)), *middle])
    assert found.transferred is None and found.error is not None and found.error > 0.25
    assert found.verdict.startswith("undetermined: the best lr scales as width^")


def test_diverged_runs_are_dropped_with_a_warning() -> None:
    points = losses(0.0)
    broken = [Point(p.width, p.lr, math.nan) if (p.width, p.lr) == (256, RATES[-1]) else p for p in points]
    found = transfer(broken)
    assert found.transferred and found.slope == pytest.approx(0, abs=1e-6)
    assert found.warnings == ["width 256, lr 0.125: no finite last loss (it diverged, or did not end), dropped"]
    with pytest.raises(UserError, match="runs that end with a finite loss"):
        transfer([Point(32, 0.1, math.inf)])


def write(folder: Path, point: Point, seed: int) -> None:
    """Writes the files of a run that the command reads."""
    run = folder / f"{point.width}-{point.lr}-{seed}"
    run.mkdir(parents=True)
    config = {"model": {"width": point.width}, "optimizer": {"peak_lr": point.lr}, "num_steps": 20, "seed": seed}
    (run / "config.json").write_text(json.dumps(config))
    rows = [{"step": 10, "time": 1.0, "eval/valid/loss": 9.0}, {"step": 20, "time": 2.0, "eval/valid/loss": point.loss}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row | {"train/loss": 1.0}) + "\n" for row in rows))


def test_command_reads_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i, point in enumerate(losses(-0.5)):
        write(tmp_path / "sweep", point, i)
    out = tmp_path / "out"
    assert main(["scaling", "lr_transfer", str(tmp_path / "sweep"), f"--out={out}"]) == 0
    assert "moved: the best lr scales as width^-0.50" in capsys.readouterr().out
    report = json.loads((out / "lr_transfer.json").read_text())
    assert report["transferred"] is False and report["slope"] == pytest.approx(-0.5)
    assert report["metric"] == "eval/valid/loss" and len(report["points"]) == 42
    assert all((out / f"lr_transfer.{kind}").stat().st_size > 5000 for kind in ("png", "svg"))


def test_the_default_metric_is_an_evaluations_though_the_first_run_diverged_before(tmp_path: Path) -> None:
    for i, point in enumerate(losses(-0.5)):
        write(tmp_path / "sweep", point, i)
    write(tmp_path, Point(32, 64.0, math.nan), 0)
    (tmp_path / "32-64.0-0" / "metrics.jsonl").write_text('{"step": 5, "time": 1.0, "train/loss": "NaN"}\n')
    (tmp_path / "32-64.0-0").rename(tmp_path / "sweep" / "0")
    assert main(["scaling", "lr_transfer", str(tmp_path / "sweep")]) == 0
    report = json.loads((tmp_path / "sweep" / "lr_transfer.json").read_text())
    assert report["metric"] == "eval/valid/loss" and report["slope"] == pytest.approx(-0.5, abs=1e-6)
    assert sum("no finite last loss" in warning for warning in report["warnings"]) == 1


def test_user_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "lr_transfer", str(tmp_path)]) == 2
    assert "RUN: expected the folder of a run, or one with such folders in it" in capsys.readouterr().err
    write(tmp_path, Point(32, 0.1, 2.0), 0)
    assert main(["scaling", "lr_transfer", str(tmp_path), "--metric=eval/vald/loss"]) == 2
    assert "did you mean eval/valid/loss" in capsys.readouterr().err
