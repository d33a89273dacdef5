"""The report of real folders: pictures, page, JSON and errors."""

import base64
import html.parser
import json
import logging
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.commands import report
from txjax.report.curves import draw
from txjax.report.curves_file import plot_curves
from txjax.report.runs import Run, read_runs
from txjax.report.theme import DARK, LIGHT
from txjax.types import UserError

PNG = b"\x89PNG"


def make_run(workdir: Path, width: int = 8, rows: int = 4, **metrics: float) -> Path:
    workdir.mkdir(parents=True)
    lines = []
    for step in range(10, 10 * rows + 1, 10):
        row = {"step": step, "time": 1e9, "train/loss": 5 - step / 100, "train/lr": 1e-3, "perf/tokens_per_s": 1e5}
        if step % 20 == 0:
            row |= {
                "eval/valid/loss": 6 - step / 100,
                "eval/valid/next_token": 6 - step / 100,
                "eval/valid/accuracy": 0.5,
            }
        lines.append(json.dumps(row | metrics))
    (workdir / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (workdir / "config.json").write_text(
        json.dumps({"model": {"class": "txjax.models.vision.vit.ViT", "width": width}, "seed": 1})
    )
    (workdir / "manifest.json").write_text(json.dumps({"versions": {"jax": "1<2"}, "parameters": 123456}))
    return workdir


class Page(html.parser.HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.cells: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]
        if tag == "tr":
            self.cells.append([])

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("td", "th") and data.strip():
            self.cells[-1].append(data)


def test_page_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = make_run(tmp_path / "a" / "run"), make_run(tmp_path / "b" / "run", width=16)
    assert report.run([str(a), str(b)]) == 0
    assert (a / "report" / "curves.png").read_bytes().startswith(PNG)
    page = Page((a / "report" / "index.html").read_text())
    assert len(page.links) == 2
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert ["a/run", "b/run"] in page.cells
    for row in (["eval/valid/loss", "5.6", "5.6"], ["model.width", "8", "16"], ["versions.jax", "1<2", "1<2"]):
        assert row in page.cells
    assert not [row for row in page.cells if row[0] == "seed"]
    out = capsys.readouterr().out
    assert "123,456" in out
    assert str(a / "report" / "index.html") in out.replace("\n", "")


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", **{"train/grad_norm": math.inf})
    assert report.run([str(run), "--json", f"--out={tmp_path / 'out'}"]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["curves"] == str(tmp_path / "out" / "curves.png")
    metrics = printed["runs"][0]["metrics"]
    assert (metrics["step"], metrics["best/eval/valid/loss"], metrics["best/eval/valid/step"]) == (40, 5.6, 40)
    assert metrics["train/grad_norm"] == "Infinity"


def titles(runs: list[Run]) -> list[str]:
    return [axes.get_title(loc="left") for axes in draw(runs, LIGHT).axes]


def test_pictures_show_what_was_logged(tmp_path: Path) -> None:
    runs = read_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b")])
    assert titles(runs[:1]) == ["loss", "accuracy", "learning rate", "tokens per second"]
    loss = draw(runs[:1], DARK).axes[0]
    train, valid = loss.get_lines()
    np.testing.assert_allclose(train.get_xydata(), [[s, 5 - s / 100] for s in (10, 20, 30, 40)])
    np.testing.assert_allclose(valid.get_xydata(), [[s, 6 - s / 100] for s in (20, 40)])
    assert [text.get_text() for text in loss.texts] == ["train 4.6", "valid 5.6"]
    assert draw(runs[:1], LIGHT).get_suptitle() == "a" and draw(runs, LIGHT).get_suptitle() == "a · b"
    both = draw(runs, LIGHT).axes[0]
    assert both.get_title(loc="left") == "loss  (thick: evaluation, thin: training)"
    assert [text.get_text() for text in both.texts] == ["a valid 5.6", "b valid 5.6"]
    low, high = sorted(text.get_position()[1] for text in both.texts)
    assert high - low > 0.04  # equal values, readable labels


def test_metrics_of_layers_are_one_picture_of_a_run(tmp_path: Path) -> None:
    """A line a layer, in the order of depth; the first and the last one have labels."""
    metrics = {f"train/mixer_weight/layer_{layer}": layer / 20 for layer in (10, 0, 2)}
    runs = read_runs([make_run(tmp_path / "a", **metrics), make_run(tmp_path / "b", **metrics)])
    (panel,) = (axes for axes in draw(runs[:1], LIGHT).axes if "layer" in axes.get_title(loc="left"))
    assert panel.get_title(loc="left") == "mixer_weight by layer"
    assert [line.get_ydata()[0] for line in panel.get_lines()] == [0, 0.1, 0.5]
    assert [text.get_text() for text in panel.texts] == ["layer 0 0", "layer 10 0.5"]
    assert not [title for title in titles(runs) if "layer" in title]


def test_losses_of_tasks_are_one_picture_of_a_run(tmp_path: Path) -> None:
    """A line a task, of the rows that have it, since tasks may take turns."""
    workdir = make_run(tmp_path / "a")
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    for task, row in zip(["answers", "objects", "answers", "objects"], rows, strict=True):
        row[f"train/{task}/loss"] = row["step"] / 10
    (workdir / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (panel,) = (axes for axes in draw(read_runs([workdir]), LIGHT).axes if "task" in axes.get_title(loc="left"))
    assert [line.get_xydata().tolist() for line in panel.get_lines()] == [[[10, 1], [30, 3]], [[20, 2], [40, 4]]]
    assert [text.get_text() for text in panel.texts] == ["answers 3", "objects 4"]


def test_smoothing_keeps_a_straight_line_straight(tmp_path: Path) -> None:
    (run,) = read_runs([make_run(tmp_path / "run", rows=300)])
    raw, smooth, _ = draw([run], LIGHT).axes[0].get_lines()
    np.testing.assert_allclose(smooth.get_ydata(), raw.get_ydata(), rtol=1e-9)


@pytest.mark.parametrize("rows", [0, 1])
def test_runs_with_few_rows(tmp_path: Path, rows: int) -> None:
    run = make_run(tmp_path / "run", rows=rows, **{"train/grad_norm": math.nan})
    if rows == 0:
        (run / "metrics.jsonl").write_text("")
    path = plot_curves([run], tmp_path / "curves.png")
    assert path.read_bytes().startswith(PNG)


def test_mistakes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with pytest.raises(UserError, match="a run with metrics.jsonl"):
        report.run([str(run), str(tmp_path / "nothing")])
    with pytest.raises(UserError, match="given twice"):
        report.run([str(run), str(run)])
    with pytest.raises(UserError, match="did you mean --out"):
        report.run([str(run), "--otu=x"])
    (run / "config.json").write_text("{")
    with pytest.raises(UserError, match="config.json: expected JSON"):
        report.run([str(run)])
    assert not (run / "report").exists()


def test_pictures_and_samples_of_every_run(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    for step in (*range(1, 41), 50):  # 50 is after the last row: of a run that was restarted from step 0
        for kind, ending, content in (
            ("pictures", "png", b"picture %d" % step),
            ("samples", "txt", b"<text %d>" % step),
        ):
            path = a / kind / "valid" / f"{step}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (a / "pictures" / "valid" / "notes.txt").write_text("none of ours")
    assert report.run([str(a), str(b)]) == 0
    text = (a / "report" / "index.html").read_text()
    pictures = [base64.b64decode(link.partition(",")[2]).decode() for link in Page(text).links[2:]]
    assert pictures == [f"picture {step}" for step in (40, 1, 8, 16, 23, 31, 39)]
    shown = [int(word) for word in re.findall(r"&lt;text (\d+)&gt;", text)]
    assert shown == [40, 39, 31, 23, 16, 8, 1] and "<h3>a valid</h3>" in text and "<h3>b valid" not in text
    assert "<h2>Pictures</h2>" not in page_of(b)


def test_links_that_leave_the_workdir(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """A page can be shared: it reads and writes nothing outside the run's own folder."""
    run = make_run(tmp_path / "run")
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "10.txt"
    secret.write_text("the secret")
    for name in ("a", "b"):
        (run / "samples" / name).mkdir(parents=True)
    (run / "samples" / "a" / "10.txt").symlink_to("../../kept.txt")
    (run / "kept.txt").write_text("its own text")
    (run / "samples" / "b" / "10.txt").symlink_to(secret)
    (run / "samples" / "c").symlink_to(secret.parent)
    os.mkfifo(run / "samples" / "b" / "20.txt")
    (run / "pictures").symlink_to(secret.parent.parent)
    (run / "samples" / "\x1b[2J").symlink_to(secret.parent)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as outside of pytest
    assert main(["report", str(run)]) == 0
    page = (run / "report" / "index.html").read_text()
    assert "the secret" not in page and "its own text" in page
    warned = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in warned] == [f"skipped, since links lead out of {run}"] * 2
    assert r"samples/\x1b[2J/10.txt" in warned[1]


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "metrics.jsonl", "goodput.json", "report"])
def test_run_files_that_are_links_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "index.html").write_text("of somebody else")
    target = tmp_path / "outside" if name == "report" else tmp_path / "outside" / "secret.json"
    if name != "report":
        target.write_text('{"password": "x"}')
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(target)
    assert main(["report", str(run)]) == 2
    assert "a link that leaves the folder is not followed" in capsys.readouterr().err
    assert (tmp_path / "outside" / "index.html").read_text() == "of somebody else"
    if name != "report":
        assert not (run / "report").exists()


def test_pictures_are_never_written_through_a_link(tmp_path: Path) -> None:
    run, victim = make_run(tmp_path / "run"), tmp_path / "victim"
    victim.write_text("untouched")
    (run / "report").mkdir()
    names = ("curves.png", ".curves.png.tmp", "index.html", ".index.html.tmp")
    for path in (*(run / "report" / name for name in names), run / "curves.png", run / ".curves.png.tmp"):
        path.symlink_to(victim)
    assert page_of(run).startswith("<!doctype html>")
    assert plot_curves([run], run / "curves.png").read_bytes().startswith(PNG)
    assert (run / "report" / "curves.png").read_bytes().startswith(PNG)
    assert victim.read_text() == "untouched"


def test_what_a_killed_report_left_is_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "report").mkdir()
    for name in ("curves.png", "index.html"):
        (run / "report" / f".{name}.1234-0123cdef.tmp").write_text("half")
    assert report.run([str(run)]) == 0
    assert sorted(path.name for path in (run / "report").iterdir()) == ["curves.png", "index.html"]


def test_names_with_dollars_are_no_formulas(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a$\\frac{$", **{r"eval/$x^$/accuracy": 0.5}), make_run(tmp_path / "b")]
    assert report.run([*map(str, runs)]) == 0


def page_of(run: Path) -> str:
    assert report.run([str(run)]) == 0
    return (run / "report" / "index.html").read_text()


def test_speeds_are_folded_away_and_rounded(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", **{"perf/step_ms": 0.7299312, "goodput/start_s": 2.26613, "perf/flops_per_s": 7.84488e9}
    )
    page = page_of(run)
    table, _, folded = page.partition("<h2>Final metrics</h2>")[2].partition("<details>")
    cells = Page(folded.partition("</details>")[0]).cells
    assert ["perf/step_ms", "0.73"] in cells and ["goodput/start_s", "2.27"] in cells
    assert ["perf/flops_per_s", "7,840,000,000"] in cells
    assert "perf/" not in table and "goodput" not in table and "eval/valid/loss" in table
