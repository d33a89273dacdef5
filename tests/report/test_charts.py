"""The numbers of a page's charts: what was logged, in few bytes."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from txjax.commands import report
from txjax.report import charts
from txjax.report.charts import chart_data
from txjax.report.panels import run_panels
from txjax.report.runs import read_runs
from txjax.report.theme import DARK, LIGHT

from helpers.logged_runs import logged_run

pytestmark = pytest.mark.claim(
    "Logs", "a run's page has its curves as charts, of the values that were logged, in one file"
)


def data_of(*workdirs: Path) -> dict:
    runs = read_runs(workdirs)
    return chart_data(run_panels(runs, LIGHT), run_panels(runs, DARK))


def test_charts_have_the_logged_values_and_gaps(tmp_path: Path) -> None:
    losses: list[float | str] = [5.0, "NaN", 1 / 3, "Infinity"]
    rows: list[dict] = [{"train/loss": loss, "train/lr": 1e-3} for loss in losses]
    rows[2]["eval/valid/loss"] = 2.5
    data = data_of(logged_run(tmp_path / "run", rows))
    loss, rate = data["charts"]
    train, valid = loss["lines"]
    assert (loss["title"], train["name"], valid["name"], rate["title"]) == ("loss", "train", "valid", "learning rate")
    assert train["colors"] == [LIGHT.lines[0], DARK.lines[0]] and valid["measured"] and not train["measured"]
    assert [data["steps"][train["points"][0]], train["points"][1]] == [(10, 20, 30, 40), [5, None, 0.333333, None]]
    assert [data["steps"][valid["points"][0]], valid["points"][1]] == [(30,), [2.5]]
    assert rate["lines"][0]["points"][0] == train["points"][0]  # one array for both
    assert data["limit"] is None


def test_long_lines_keep_their_peaks_and_gaps(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(charts, "MOST_POINTS", 300)
    rows: list[dict] = [{"train/loss": 1.0} for _ in range(5000)]
    rows[1234]["train/loss"] = 99.0
    rows[2345]["train/loss"] = -99.0
    rows[3456]["train/loss"] = "NaN"
    data = data_of(logged_run(tmp_path / "run", rows))
    (line,) = data["charts"][0]["lines"]
    array, values = line["points"]
    points = dict(zip(data["steps"][array], values, strict=True))
    assert len(points) <= 302 and data["limit"] == 300
    assert points[12350] == 99 and points[23460] == -99 and points[34570] is None and {10, 50000} <= set(points)
    array, values = line["average"]
    average = dict(zip(data["steps"][array], values, strict=True))
    assert average[34570] is None
    finite = np.asarray([value for value in average.values() if value is not None])
    assert finite.max() == pytest.approx(1 + 98 / 99, rel=1e-5) and finite.min() == pytest.approx(
        1 - 100 / 99, rel=1e-3
    )


def test_a_page_of_many_rows_is_small_and_alone(tmp_path: Path) -> None:
    noise = random.Random(0)
    names = ("train/loss", "train/lr", "train/grad_norm", "perf/tokens_per_s")
    run = logged_run(tmp_path / "run", [{name: 3 + noise.gauss(0, 0.3) for name in names} for _ in range(10_000)])
    assert report.run([str(run)]) == 0
    page = (run / "report" / "index.html").read_text()
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href|srcset)=\"(?!data:)", page) and "@import" not in page and "url(" not in page
    data = json.loads(page.partition('id="curves">')[2].partition("</script>")[0])
    assert [len(chart["lines"][0]["points"][1]) for chart in data["charts"]] == [10_000] * 4


def test_names_in_charts_are_escaped(tmp_path: Path) -> None:
    run = logged_run(tmp_path / "run", [{"train/loss": 1.0, "eval/</script><script>alert(1)/loss": 1.0}])
    assert report.run([str(run)]) == 0
    page = (run / "report" / "index.html").read_text()
    assert "<script>alert" not in page
    data = json.loads(page.partition('id="curves">')[2].partition("</script>")[0])
    assert data["charts"][0]["lines"][0]["name"] == "train"


def test_the_vendored_library_is_of_its_version() -> None:
    (folder,) = (Path(charts.__file__).parent / "templates").glob("uplot-*")
    version = folder.name.removeprefix("uplot-")
    assert f"(v{version})" in (folder / "uPlot.iife.min.js").read_text()[:100]
    assert "MIT" in (folder / "LICENSE").read_text()
    root = Path(__file__).parents[2]
    assert f"uPlot {version}" in (root / "docs" / "licences.md").read_text()
    assert f"{folder.relative_to(root)}/LICENSE" in (root / "pyproject.toml").read_text()
