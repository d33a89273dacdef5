"""`txjax scaling` from the command line: output and errors."""

import dataclasses
import json
import math
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.report.run_page import scores
from txjax.report.runs import read_runs
from txjax.scaling.curves import DataConstrained
from txjax.scaling.forms import law_named
from txjax.scaling.preregistration import register
from txjax.scaling.run_records import read_records
from txjax.scaling.table import read_table
from txjax.types import UserError

from helpers.scaling_runs import LAW, grid, loss, noise, profiles, public, write

NAMES = "params=N,tokens=D,loss=L"
NEEDS = {"data_constrained": ("params", "tokens", "unique_tokens")}


def parsed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["scaling", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["scaling", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def renamed(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {"params": "N", "tokens": "D", "loss": "L", "flops": "FLOPs used"}
    return {names.get(name, name): column for name, column in columns.items()}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write(tmp_path / "runs.csv", renamed(grid(5, 5, size=0.002)))


def test_pictures_from_the_shell_of_a_notebook(runs: Path, tmp_path: Path) -> None:
    """A kernel's MPLBACKEND may name a module that the command's environment lacks."""
    words = [
        f"--data={runs}",
        f"--columns={NAMES}",
        "--form=parametric",
        "--bootstrap=0",
        f"--plots={tmp_path / 'plots'}",
    ]
    environment = os.environ | {"MPLBACKEND": "module://a_backend_of_another_environment"}
    subprocess.run([sys.executable, "-m", "txjax", "scaling", "fit", *words], env=environment, check=True)
    assert list((tmp_path / "plots").glob("*.png"))


def test_the_published_refit_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    data = public("chinchilla_epoch/svg_extracted_data.csv")
    columns = "--columns=params=Model Size,flops=Training FLOP,loss=loss"
    words = ("fit", f"--data={data}", "--form=parametric", columns, "--drop_largest_losses=5", "--bootstrap=0")
    found = parsed(capsys, *words, "--loss=huber", "--delta=1e-3", "--predict=flops=5.88e23")
    assert found["objective"] <= 0.00101827405 and (found["rows_used"], len(found["rows_dropped"])) == (240, 5)
    assert all("5 largest" in row["reason"] for row in found["rows_dropped"])
    best = found["predictions"][0]
    np.testing.assert_allclose(best["tokens"] / best["params"], 17.91, rtol=1e-3)
    assert any("D = C / (6 N)" in warning for warning in found["warnings"])
    assert any("45.4 times the largest" in warning for warning in found["warnings"])
    assert any("fewer than 3 tokens" in warning and "row 6 (line 7)" in warning for warning in found["warnings"])


def test_intervals_and_predictions(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = "--predict=params=2e9,tokens=4e10"
    found = parsed(capsys, "fit", f"--data={runs}", f"--columns={NAMES}", "--bootstrap=16", at, "--predict=flops=1e20")
    keys = ("form", "rows_used", "rows_dropped", "parameters", "objective", "intervals", "predictions", "warnings")
    assert set(keys) <= set(found) and list(found["parameters"]) == ["E", "A", "B", "alpha", "beta"]
    for name, (low, high) in found["intervals"].items():
        assert low <= found["parameters"][name] <= high
    point, budget = found["predictions"]
    np.testing.assert_allclose(point["loss"], loss(np.array(2e9), np.array(4e10)), rtol=5e-3)
    wide, narrow = point["interval_of_a_run"], point["interval"]
    assert wide[0] < narrow[0] <= point["loss"] <= narrow[1] < wide[1]
    assert budget["params_interval"][0] < budget["params"] < budget["params_interval"][1]
    np.testing.assert_allclose(budget["params"] * budget["tokens"] * 6, 1e20, rtol=1e-9)
    assert found["backtest"]["rows"] >= 1 and found["backtest"]["largest_absolute_error"] < 0.05
    assert main(["scaling", "fit", f"--data={runs}", f"--columns={NAMES}", "--bootstrap=5", at]) == 0
    out = capsys.readouterr().out
    assert "back-test" in out and "warning: no column of FLOPs" in out


def test_isoflop_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "runs.csv", renamed(profiles(5, size=0.001)))
    columns = "--columns=params=N,tokens=D,flops=FLOPs used,loss=L"
    words = ("fit", f"--data={data}", columns, "--form=isoflop")
    found = parsed(capsys, *words, "--bootstrap=20", "--predict=flops=3e21")
    a = LAW["beta"] / (LAW["alpha"] + LAW["beta"])
    np.testing.assert_allclose(found["parameters"]["params_exponent"], a, atol=0.03)
    assert len(found["minima"]) == 5 and {"params_exponent", "tokens_exponent"} <= set(found["intervals"])
    plots = tmp_path / "plots"
    assert main(["scaling", *words, "--bootstrap=5", f"--plots={plots}"]) == 0
    names = {path.name for path in plots.iterdir()}
    assert {
        f"isoflop_{n}.{e}" for n in ("loss", "profiles", "optimum", "extrapolation") for e in ("png", "svg")
    } == names
    assert all(path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml") for path in plots.iterdir())


def test_columns_of_nested_missing_and_text_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSONL with nested, missing and spelt-out values; a condition on booleans, words and numbers."""
    n, d, y = grid(4, 4).values()
    rows: list[dict[str, Any]] = [
        {"model": {"size, all": f"{a:.17g}"}, "D": b, "L": c, "final": True} for a, b, c in zip(n, d, y, strict=True)
    ]
    rows += [rows[0] | {"final": False}, rows[0] | {"L": None}, rows[0] | {"L": True}]
    data = tmp_path / "runs.jsonl"
    data.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    columns = "--columns=params=model.size, all,tokens=D,loss=L"
    found = parsed(capsys, "fit", f"--data={data}", columns, "--where=final=true,D>=1e9", "--bootstrap=0")
    assert found["rows_used"] == 16
    reasons = [(row["row"], row["reason"]) for row in found["rows_dropped"]]
    assert reasons == [("row 18 (line 35)", "L is blank"), ("row 19 (line 37)", "L is True")]
    fewer = parsed(capsys, "fit", f"--data={data}", columns, "--where=final=true,D!=1e9", "--bootstrap=0")
    assert fewer["rows_used"] == 12
    assert "--where: expected" in refused(capsys, "fit", f"--data={data}", columns, "--where=finl=true")


def test_bad_rows_are_named_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = renamed(grid(5, 5, size=0.001))
    for row, value in ((3, math.nan), (7, math.inf), (9, -1.0), (11, 9.0)):
        columns["L"][row] = value
    for name in columns:
        columns[name][20] = columns[name][21]
    data = write(tmp_path / "runs.csv", columns)
    found = parsed(capsys, "fit", f"--data={data}", f"--columns={NAMES}", "--bootstrap=0")
    assert [(r["row"], r["reason"]) for r in found["rows_dropped"]] == [
        ("row 4 (line 5)", "L is nan"),
        ("row 8 (line 9)", "L is inf"),
        ("row 10 (line 11)", "L is -1.0"),
    ]
    assert any("row 12 (line 13) +" in w and "diverged" in w for w in found["warnings"])
    assert any(w.startswith("row 22 (line 23) is the same as row 21 (line 22)") for w in found["warnings"])
    np.testing.assert_allclose(found["parameters"]["E"], LAW["E"], rtol=0.05)


def test_refusals(tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ("fit", f"--data={runs}", "--bootstrap=0")
    line = refused(capsys, *fit, "--columns=params=N,tokens=D,loss=Loss")
    assert "--columns loss: expected a column of the data, got 'Loss'" in line and "it has N, D, L" in line
    assert "did you mean tokens" in refused(capsys, *fit, "--columns=params=N,token=D,loss=L")
    assert "loss=COL" in refused(capsys, *fit, "--columns=params=N,tokens=D")
    assert "tokens=COLUMN for parametric" in refused(capsys, *fit, "--columns=params=N,loss=L")
    assert "did you mean isoflop" in refused(capsys, *fit, f"--columns={NAMES}", "--form=isoflops")
    assert "a parameter of parametric" in refused(capsys, *fit, f"--columns={NAMES}", "--fix=gamma=1")
    assert "did you mean params" in refused(capsys, *fit, f"--columns={NAMES}", "--predict=parms=1")
    assert "there is no such file" in refused(capsys, "fit", f"--data={tmp_path / 'none.csv'}")
    few = write(tmp_path / "few.csv", {name: column[:4] for name, column in renamed(grid()).items()})
    line = refused(capsys, "fit", f"--data={few}", f"--columns={NAMES}", "--bootstrap=0")
    assert "at least 5 distinct rows for the 5 parameters" in line
    one = grid(1, 8)
    line = refused(capsys, "fit", f"--data={write(tmp_path / 'one.csv', renamed(one))}", f"--columns={NAMES}")
    assert "alpha" in line and "A" in line and "--fix" in line
    budget = write(tmp_path / "budget.csv", renamed(profiles(1)))
    columns = "--columns=params=N,tokens=D,flops=FLOPs used,loss=L"
    line = refused(capsys, "fit", f"--data={budget}", columns, "--form=isoflop")
    assert "at least two budgets" in line and "one budget" in line
    (tmp_path / "blank.csv").write_text("N,D,L\n1,2,\n")
    line = refused(capsys, "fit", f"--data={tmp_path / 'blank.csv'}", f"--columns={NAMES}")
    assert "row 1 (line 2): L is blank" in line
    assert "did you mean fit" in refused(capsys, "fitt")


def test_parameters_counted_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = grid()
    data = write(tmp_path / "runs.csv", columns | {"params_without_embeddings": columns["params"] - 5e6})
    found = parsed(capsys, "fit", f"--data={data}", "--bootstrap=0")
    assert found["parameters_without_embeddings"]["alpha"] < found["parameters"]["alpha"]
    assert any("counted the other way" in warning for warning in found["warnings"])


def test_flops_that_are_not_six_n_d_are_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = grid()
    data = write(tmp_path / "runs.csv", columns | {"flops": 6 * columns["tokens"] * (columns["params"] + 2e7)})
    found = parsed(capsys, "fit", f"--data={data}", "--bootstrap=0")
    assert any("6 N D is 0.33 to 0.98 of the FLOPs" in warning for warning in found["warnings"])


def test_compare_two_laws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, floor in (("one", 1.7), ("other", 1.5)):
        columns = grid(5, 5)
        columns["loss"] = loss(columns["params"], columns["tokens"], E=floor) * noise(25, 0.001, seed=len(name))
        files.append(tmp_path / f"{name}.json")
        data = write(tmp_path / f"{name}.csv", columns)
        assert main(["scaling", "fit", f"--data={data}", "--bootstrap=12", f"--save={files[-1]}"]) == 0
    capsys.readouterr()
    at, plots = "--predict=params=1e9,tokens=1e11", f"--plots={tmp_path / 'plots'}"
    found = parsed(capsys, "compare", str(files[0]), str(files[1]), at, plots)["differences"]
    rows = {row["name"]: row for row in found}
    assert rows["E"]["differs"] and rows["loss at params=1e+09,tokens=1e+11"]["differs"]
    low, high = rows["loss at params=1e+09,tokens=1e+11"]["difference_interval"]
    assert low - 0.01 < -0.2 < high + 0.01
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"comparison.png", "comparison.svg"}
    same = parsed(capsys, "compare", str(files[0]), str(files[0]))["differences"]
    assert not any(row["differs"] for row in same) and all(row["difference"] == 0 for row in same)
    assert "files that `txjax scaling fit --save=FILE` wrote" in refused(capsys, "compare", str(files[0]), __file__)


def make_run(folder: Path, width: int, steps: int, value: float, done: bool = True) -> None:
    folder.mkdir(parents=True)
    config = {"model": {"width": width}, "num_steps": steps, "batch_size": 8, "data": {"length": 16}}
    kind = "txjax.optim.schedules." + ("Cosine" if width > 8 else "Constant")
    config["optimizer"] = {"schedule": {"class": kind, "warmup_steps": 100 if width == 8 else 0}}
    (folder / "config.json").write_text(json.dumps(config))
    counts = {"parameters": 1000 * width, "parameters_without_embeddings": 900 * width, "tokens_per_step": 128}
    counts["tokens_per_epoch"] = 128 * 200
    (folder / "manifest.json").write_text(json.dumps(counts | {"flops_per_step": 6000 * width * 128}))
    end = steps if done else steps // 2
    rows = [{"step": s, "time": 1.0, "eval/valid/loss": value + (end - s) / end} for s in (end // 2, end)]
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")


def test_a_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for width in (8, 16, 32, 64):
        for steps in (100, 300, 900):
            value = float(loss(np.array(1000.0 * width), np.array(128.0 * steps), A=10, B=30))
            make_run(tmp_path / f"w{width}" / f"s{steps}", width, steps, value)
    make_run(tmp_path / "cut", 8, 100, 3.0, done=False)
    found = parsed(capsys, "fit", f"--data={tmp_path}", "--bootstrap=0", "--where=model.width>8")
    assert found["rows_used"] == 9
    (dropped,) = found["rows_dropped"]
    assert dropped["row"] == "cut" and "step 50" in dropped["reason"]
    np.testing.assert_allclose([found["parameters"][n] for n in ("A", "beta")], [10, 0.3], rtol=1e-3)
    assert "parameters_without_embeddings" in found
    assert len(read_records(tmp_path, curves=True).rows) == 26
    unique = read_table(tmp_path, where="model.width=64")["unique_tokens"]
    np.testing.assert_array_equal(unique, [128 * 100, 128 * 200, 128 * 200])


def test_runs_unfit_for_a_law_are_warned_about(tmp_path: Path) -> None:
    for width in (8, 16):
        make_run(tmp_path / f"w{width}", width, 900, 3.0)
    warmup, decays, repeats = read_table(tmp_path).warnings
    assert warmup.startswith("1 of 2 runs warm up over more tokens") and warmup.endswith(": w8")
    assert decays.startswith("1 of 2 runs end at a learning rate that never decayed") and decays.endswith(": w8")
    assert repeats.startswith("2 of 2 runs see their tokens more than 4 times") and repeats.endswith(": w16, w8")
    assert read_table(tmp_path, where="model.width=16").warnings == (repeats.replace("2 of 2", "1 of 1")[:-4],)


def test_the_manifest_has_what_a_law_needs(straight_run: Path) -> None:
    """Of a real run: 40 steps of 8 windows of 16 bytes; the only embedding has 256 rows of width 16."""
    (row,) = read_records(straight_run).rows
    assert (
        (row["step"], row["tokens"]) == (40, 40 * 8 * 16)
        and row["unique_tokens"] == row["tokens"]
        and row["eval/valid/loss"] < 6
    )
    tables = row["parameters"] - row["parameters_without_embeddings"]
    assert tables % 16 == 0 and tables >= 256 * 16
    assert row["flops"] > 6 * row["parameters_without_embeddings"] * row["tokens"]
    steps = [row["step"] for row in read_records(straight_run, curves=True).rows]
    assert steps == [10, 20, 30, 40]


def test_a_registered_prediction_is_scored_in_the_report(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workdir = tmp_path / "big"
    words = ("predict", f"--data={runs}", f"--columns={NAMES}", "--bootstrap=8", "--at=params=5e9,tokens=1e11")
    found = parsed(capsys, *words, f"--register={workdir / 'prediction.json'}")
    written = json.loads((workdir / "prediction.json").read_text())
    assert written["prediction"] == found["predictions"][0] and written["data"] == found["data"]
    assert written["created"].startswith("20") and len(written["data"]["digest"]) == 32
    assert "a new file" in refused(capsys, *words, f"--register={workdir / 'prediction.json'}")
    value = written["prediction"]["loss"] * 1.01
    rows = [{"step": 10, "time": 1.0, "eval/valid/loss": value}]
    (workdir / "metrics.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    (run,) = read_runs([workdir])
    np.testing.assert_allclose(scores(run)["prediction/relative_error"], 1 / 1.01 - 1)
    on_the_way = dataclasses.replace(run, config={"num_steps": 10**9})
    assert "prediction/relative_error" not in scores(on_the_way) and "prediction/loss" in scores(on_the_way)
    low, high = written["prediction"]["interval"]
    assert scores(run)["prediction/interval_low"] == low and scores(run)["prediction/interval_high"] == high
    line = refused(capsys, *words, f"--register={workdir / 'other.json'}")
    assert "a run that has not started" in line


def test_of_several_registrations_at_once_one_is_written(tmp_path: Path) -> None:
    law = {"form": "chinchilla", "parameters": {}, "rows_used": 1, "data": {}, "warnings": []}
    path, start = tmp_path / "prediction.json", threading.Barrier(8)

    def attempt(loss: int) -> int:
        start.wait()
        try:
            return register(path, {"loss": loss}, law, "eval/valid/loss")["prediction"]["loss"]
        except UserError as error:
            assert "a registered prediction is not overwritten" in str(error)
            return -1

    with ThreadPoolExecutor(8) as threads:
        losses = list(threads.map(attempt, range(8)))
    assert losses.count(-1) == 7 and max(losses) == json.loads(path.read_text())["prediction"]["loss"]
    assert [file.name for file in tmp_path.iterdir()] == ["prediction.json"]


def test_minima_by_parabola_by_spline_and_at_the_edge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = profiles(budgets=5)
    first, last = (np.flatnonzero(table["flops"] == table["flops"][i]) for i in (0, -1))
    table["loss"][first[2:]] = table["loss"][first[1]] + 0.2  # below at one size only: a parabola has its vertex beyond
    table["loss"][last] = np.sort(table["loss"][last])  # the smallest is the best
    data = write(tmp_path / "runs.csv", renamed(table))
    words = ("fit", f"--data={data}", "--columns=params=N,tokens=D,flops=FLOPs used,loss=L", "--form=isoflop")

    def ways(*flags: str) -> tuple[list[str | None], str]:
        found = parsed(capsys, *words, *flags, "--bootstrap=8")
        assert all(np.isfinite(found["intervals"]["params_exponent"]))
        return [m.get("by") for m in found["minima"]], " ".join(found["warnings"])

    by, said = ways()
    assert by == ["akima", *["parabola"] * 3, None]
    assert "budget 1e+18: its parabola has no minimum among the sizes; minimum by akima" in said
    by, said = ways("--minima=parabola")
    assert by == [None, *["parabola"] * 3, None]
    assert "budget 1e+18: its parabola has no minimum among the sizes; it is dropped" in said
    by, said = ways("--minima=akima")
    assert by == [*["akima"] * 4, None] and "budget 1e+18" not in said
    kept = parsed(capsys, *words, "--keep_edges", "--bootstrap=8", "--predict=flops=1e21")
    assert [m["by"] for m in kept["minima"]] == ["akima", *["parabola"] * 3, "edge"]
    assert "its smallest size (row 29 (line 30)); minimum by edge" in " ".join(kept["warnings"])
    bound = "the best size of the budgets 1e+21 is at the edge, a bound of the minimum without error"
    assert kept["intervals"] == {} and kept["no_intervals"] == bound and "interval" not in kept["predictions"][0]
    assert f"the 95% intervals are not known: {bound}" in kept["warnings"]
    found = parsed(capsys, *words, "--keep_edges", "--bootstrap=0")["minima"][-1]
    assert found["params"] == table["params"][last[0]] and found["loss"] == pytest.approx(table["loss"][last[0]])
    assert main(["scaling", *words, "--bootstrap=0", "--keep_edges"]) == 0
    assert "minima, 1 by akima, 3 by parabola, 1 by edge" in " ".join(capsys.readouterr().out.split())
    saved = tmp_path / "law.json"
    assert main(["scaling", *words, "--bootstrap=8", "--keep_edges", f"--save={saved}"]) == 0
    assert capsys.readouterr().out.count("not known") == 7 + 1  # parameters, and the warning
    assert bound in refused(capsys, "compare", str(saved), str(saved))
    for flag in ("--minima=akima", "--keep_edges"):
        assert "expected --form=isoflop beside it" in refused(capsys, *words[:-1], "--form=parametric", flag)


def test_intervals_are_not_known_without_residuals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Budgets of three runs, five rows for five parameters, sizes of three learning rates, an envelope of two runs."""
    table = profiles(4, 3)
    three = write(tmp_path / "three.csv", table)
    five = write(tmp_path / "five.csv", {name: column[[0, 4, 12, 20, 23]] for name, column in grid(5, 5).items()})
    n, rate = (x.ravel() for x in np.meshgrid([1e7, 1e8, 1e9], [1e-3, 2e-3, 4e-3], indexing="ij"))
    bowl = 3 - 0.1 * np.log10(n) + 0.1 * np.log(rate / 2e-3 * (n / 1e8) ** 0.1) ** 2
    rates = write(tmp_path / "rates.csv", {"params": n, "learning_rate": rate, "loss": bowl})
    steps = np.geomspace(1e8, 1e12, 9)
    sizes = np.repeat([1e7, 1e8], 9)
    curves = {"params": sizes, "tokens": np.tile(steps, 2), "loss": loss(sizes, np.tile(steps, 2))}
    curves["flops"] = 6 * curves["params"] * curves["tokens"]
    runs = write(tmp_path / "curves.csv", curves, group=["a"] * 9 + ["b"] * 9)
    for data, form, reason in (
        (
            three,
            "isoflop",
            "the budgets 1e+18, 1e+19, 1e+20, 1e+21 have 3 runs, which a parabola fits without residuals",
        ),
        (five, "parametric", "there are as many rows as parameters: the residuals give no error"),
        (rates, "learning_rate", "as many runs as a quadratic has coefficients"),
        (runs, "envelope", "there are two runs, and a law needs both"),
    ):
        found = parsed(capsys, "fit", f"--data={data}", f"--form={form}", "--bootstrap=8")
        assert found["intervals"] == {} and reason in found["no_intervals"]
        assert f"the 95% intervals are not known: {found['no_intervals']}" in found["warnings"]


@pytest.mark.parametrize(
    ("form", "law"),
    [
        ("parametric", {"E": 1.0, "A": 400.0, "B": 0.0, "alpha": 0.3, "beta": 0.3}),
        ("parametric", {"E": 1.0, "A": 400.0, "B": 400.0, "alpha": 0.3, "beta": -60.0}),
        ("parametric", {"E": 1.0, "A": 1e250, "B": 1.0, "alpha": 1e-3, "beta": 1e-3}),
        ("overtraining", {"E": 1.0, "a": 0.0, "b": 1.0, "eta": 0.2}),
        ("overtraining", {"E": 1.0, "a": 1.0, "b": 1e250, "eta": 1e-3}),
        ("kaplan", {"Nc": 1e300, "Dc": 1e300, "alpha_N": 20.0, "alpha_D": 20.0}),
        ("kaplan", {"Nc": 0.0, "Dc": 0.0, "alpha_N": 1e304, "alpha_D": 0.0}),
        ("data_constrained", {"E": 1.0, "A": 0.0, "B": 0.0, "alpha": 0.0, "beta": 1e304, "R_D": 0.0, "R_N": 1e304}),
        (
            "isoflop",
            {f"{n}_{part}": 30.0 for n in ("params", "tokens", "loss") for part in ("coefficient", "exponent")},
        ),
    ],
)
def test_best_runs_of_extreme_laws_are_finite(form: str, law: dict[str, float]) -> None:
    """The best run of a budget spends it, between one parameter and one token; nothing overflows."""
    best = law_named(form, law, NEEDS.get(form, ("params", "tokens"))).optimum(law | {"loss_floor": 1.0}, 6e25)
    assert all(math.isfinite(value) for value in best.values())
    if form != "isoflop":
        np.testing.assert_allclose(best["params"] * best["tokens"], 1e25, rtol=1e-9)
        assert 1 <= best["params"] <= 1e25 * (1 + 1e-9)


def test_wide_intervals_are_unidentified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """R_N is so large here that no row determines it. No numpy warning is emitted."""
    law = LAW | {"R_D": 15.0, "R_N": 1e6}
    axes = np.geomspace(1e7, 3e9, 4), np.geomspace(1e8, 1e11, 4), np.array([1e8, 1e9, 1e10])
    n, d, unique = (x.ravel() for x in np.meshgrid(*axes))
    columns = {"params": n, "tokens": np.maximum(d, unique), "unique_tokens": unique}
    curve = DataConstrained()
    made = np.exp(curve.log_loss(curve.theta(law), columns)[0]) * noise(len(n), 0.005)
    data, saved = write(tmp_path / "runs.csv", columns | {"loss": made}), tmp_path / "law.json"
    assert (
        main(["scaling", "fit", f"--data={data}", "--form=data_constrained", "--bootstrap=8", f"--save={saved}"]) == 0
    )
    out, found = capsys.readouterr().out, json.loads(saved.read_text())
    assert found["intervals"]["R_N"][1] > 1e10 and found["unidentified"] == ["R_N"]
    assert any(w.startswith("R_N is unidentified: 95% of the draws lie between") for w in found["warnings"])
    assert out.count("(unidentified)") == 1
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
