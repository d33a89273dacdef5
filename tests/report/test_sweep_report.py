"""The report of a sweep's folder: seeds averaged, best first, pictures, JSON."""

import json
import math
import re
import urllib.parse
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main

LR = "optimizer.peak_lr"
ALIBI = {"class": "txjax.nn.positions.positions.Alibi", "start": 1, "bias": True}


def make_sweep(folder: Path) -> dict[tuple[float, int], float]:
    """Two settings of three seeds, a component, one that diverged, one running, one not started. Returns the losses."""
    rng, points, losses = np.random.default_rng(0), [], {}

    def point(name: str, values: dict, loss: float | None, done: bool = True) -> None:
        points.append({"name": name, "digest": name, "values": values, "num_steps": 20, "flops_per_step": 100})
        if loss is None:
            return
        run = folder / name
        (run / "checkpoints" / "20").mkdir(parents=True)
        if done:
            (run / "checkpoints" / "20" / "digests.json").write_text("{}")
        last = {"step": 20 if done else 10, "time": 2.0, "train/loss": 1.0}
        last |= {"eval/valid/loss": "NaN" if math.isnan(loss) else loss, "eval/valid/accuracy": 1 / (1 + loss)}
        rows = [{"step": 5, "time": 1.0, "train/loss": 2.0}, last]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        config = {"optimizer": {"class": "AdamW", "peak_lr": 0.5}, "model": {"positions": {"class": "a.Rotary"}}}
        (run / "config.json").write_text(json.dumps(config | {"seed": 0}))

    for lr in (0.1, 0.01):
        for seed in range(3):
            losses[lr, seed] = float(rng.normal(2 * lr + 1, 0.01))
            point(f"peak_lr={lr},seed={seed}", {LR: lr, "seed": seed}, losses[lr, seed])
    point("positions=Alibi", {"model.positions": ALIBI}, 0.5)
    point("positions=Alibi_start2", {"model.positions": ALIBI | {"start": 2}}, None)
    point("peak_lr=9", {LR: 9.0}, math.nan)
    point("peak_lr=2", {LR: 2.0}, 0.1, done=False)
    point("peak_lr=3", {LR: 3.0}, None)
    (folder / "sweep.json").write_text(json.dumps({"config": "c.py", "overrides": [], "points": points}))
    return losses


def make_finished(folder: Path, settings: list[dict], losses: list) -> None:
    """A sweep of finished points with these settings and last losses."""
    points = []
    for number, (values, loss) in enumerate(zip(settings, losses, strict=True)):
        name = f"point-{number}"
        (folder / name / "checkpoints" / "20").mkdir(parents=True)
        (folder / name / "checkpoints" / "20" / "digests.json").write_text("{}")
        row = {"step": 20, "time": 2.0, "train/loss": loss, "eval/valid/loss": loss}
        (folder / name / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        points.append({"name": name, "digest": name, "values": values, "num_steps": 20, "flops_per_step": 100})
    (folder / "sweep.json").write_text(json.dumps({"points": points}))


def report_json(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict:
    code = main(["report", str(folder), "--json", *flags])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out, parse_constant=pytest.fail)


def test_seeds_are_averaged_and_the_best_comes_first(tmp_path, capsys):
    losses = make_sweep(tmp_path)
    found = report_json(tmp_path, capsys)
    assert found["metric"] == "eval/valid/loss"
    groups = found["groups"]
    assert [group["count"] for group in groups] == [1, 3, 3, 0, 0, 0, 0]
    assert groups[0]["values"] == {LR: 0.5, "model.positions": "Alibi(start=1)", "seed": 0}
    for group, lr in zip(groups[1:3], (0.01, 0.1), strict=True):
        expected = np.array([losses[lr, seed] for seed in range(3)])
        assert group["values"] == {LR: lr, "model.positions": "Rotary"}
        assert group["mean"] == pytest.approx(expected.mean(), rel=1e-12)
        assert group["standard_error"] == pytest.approx(expected.std(ddof=1) / np.sqrt(3), rel=1e-12)
    assert [group["mean"] for group in groups[3:]] == [None] * 4
    states = {point["name"]: point["state"] for point in found["points"]}
    assert (states["peak_lr=2"], states["peak_lr=3"], states["peak_lr=9"]) == ("at step 10", "not begun", "finished")
    assert [Path(path).name for path in found["pictures"]] == ["axes.png", "parallel.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in found["pictures"])


def test_sort_by_another_metric_descending(tmp_path, capsys):
    make_sweep(tmp_path)
    upward = report_json(tmp_path, capsys, "--sort=-eval/valid/accuracy")["groups"]
    means = [group["mean"] for group in upward if group["mean"] is not None]
    assert means == sorted(means, reverse=True) and len(means) == 3


def test_terminal_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    make_sweep(tmp_path)
    assert main(["report", str(tmp_path), f"--out={tmp_path / 'elsewhere'}"]) == 0
    out = capsys.readouterr().out
    title = " ".join(out.split())  # as wide as the table
    assert "8 of 11 points finished" in title and "Alibi" in out and "at step 10" in out
    assert (tmp_path / "elsewhere" / "axes.png").exists() and not (tmp_path / "report").exists()


def test_user_errors(tmp_path, capsys):
    make_sweep(tmp_path)
    for flags, words in (
        ([str(tmp_path), "--sort=eval/vald/loss"], ["--sort", "did you mean eval/valid/loss"]),
        ([str(tmp_path / "peak_lr=9"), "--sort=train/loss"], ["--sort", "the folder of one sweep"]),
    ):
        assert main(["report", *flags]) == 2
        err = capsys.readouterr().err
        assert all(word in err for word in words), err
    (tmp_path / "sweep.json").write_text("{")
    assert main(["report", str(tmp_path)]) == 2
    assert "JSON" in capsys.readouterr().err


def test_html_page(tmp_path, capsys):
    """A row for every point, best first, which says all digits to what sorts; a link where a point has a page."""
    folder, elsewhere = tmp_path / "sweep", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
    make_sweep(folder)
    own = folder / "peak_lr=0.1,seed=0" / "report"
    own.mkdir()
    for page in (own, elsewhere):
        (page / "index.html").write_text("a page")
    (folder / "peak_lr=0.1,seed=1" / "report").symlink_to(elsewhere)
    found = report_json(folder, capsys)
    text = Path(found["html"]).read_text()
    body = text[text.index("<h2>Points</h2>") :].partition("<tbody>")[2].partition("</tbody>")[0]
    names = re.findall(r"</i>(?:<a href=\"[^\"]*\">)?([^<]+)", body)
    best = [name for group in found["groups"] for name in group["points"]]
    assert names == best and len(names) == 11
    losses = {point["name"]: point["metrics"].get("eval/valid/loss") for point in found["points"]}
    assert f'data-value="{losses["positions=Alibi"]!r}"' in body and 'data-value="">nan' in body
    links = [
        link for link in re.findall(r'(?:href|src|srcset)="([^"]*)"', text) if not link.startswith("data:image/png")
    ]
    assert [urllib.parse.unquote(link) for link in links] == ["../peak_lr=0.1,seed=0/report/index.html"]
    assert text.count("<th><button>") > 6 and "aria-sort" in text
    assert "://" not in text.replace("https://github.com/leeoniya/uPlot", "")  # in the notice of its licence
    charts = json.loads(text.partition('id="curves">')[2].partition("</script>")[0])["charts"]
    assert [chart["title"] for chart in charts] == ["eval/valid/loss", "train/loss"]
    assert [line["name"] for line in charts[0]["lines"]][:7] == names[:7]  # best first


def test_point_names_are_escaped(tmp_path, capsys):
    make_sweep(tmp_path)
    path = tmp_path / "sweep.json"
    sweep = json.loads(path.read_text())
    sweep["points"][0]["values"][LR] = "<script>alert(1)</script>"
    path.write_text(json.dumps(sweep))
    page = Path(report_json(tmp_path, capsys)["html"]).read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


LARGEST = "the best peak_lr, 0.01, is the largest of its values; try larger ones"
SMALLEST = "the best peak_lr, 0.001, is the smallest of its values; try smaller ones"


@pytest.mark.parametrize(
    ("losses", "sort", "sentences"),
    [
        ([3.0, 2.0, 1.0], "eval/valid/loss", [LARGEST]),
        ([1.0, 2.0, 3.0], "eval/valid/loss", [SMALLEST]),
        ([1.0, 2.0, 3.0], "-eval/valid/loss", [LARGEST]),
        ([2.0, 1.0, 3.0], "eval/valid/loss", []),
        ([3.0, 2.0, 1.0, math.nan], "eval/valid/loss", []),  # the largest diverged, so the best is inside
        ([1.0, 2.0, math.nan], "eval/valid/loss", []),  # two scores say nothing
    ],
)
def test_the_best_value_at_an_edge_of_its_axis(tmp_path, capsys, losses, sort, sentences):
    """It is said in the JSON, the table and the page; steps cost, and a decay of 0 is no edge."""
    settings = [
        {LR: lr, "optimizer.weight_decay": 0.1 * n, "num_steps": 10 + n}
        for n, lr in enumerate([1e-3, 3e-3, 1e-2, 3e-2][: len(losses)])
    ]
    make_finished(tmp_path, settings, [x if math.isfinite(x) else "NaN" for x in losses])
    found = report_json(tmp_path, capsys, f"--sort={sort}")
    assert [sentence for sentence in found["edges"] if "peak_lr" in sentence] == sentences
    assert not [sentence for sentence in found["edges"] if "steps" in sentence or "weight_decay, 0," in sentence]
    page = Path(found["html"]).read_text()
    assert all(f"<p>{sentence}.</p>" in page for sentence in sentences)
    assert (
        '<img alt="eval/valid/loss by setting" width="1210"' in page
    )  # three panels of 4.2 inches, in pixels of a page
    assert main(["report", str(tmp_path), f"--sort={sort}"]) == 0
    out = capsys.readouterr().out
    assert all(sentence in out for sentence in found["edges"])


def test_axes_that_follow_from_others_have_no_edge(tmp_path, capsys):
    """Heads and rates follow from the width, and the number of values says whether an end means anything."""
    sizes = [{"model.width": 16 * n, "model.heads": n, LR: 0.1 / n} for n in (1, 2, 3)]
    settings = [size | {"optimizer.b2": b2} for size in sizes for b2 in (0.9, 0.99)]
    make_finished(tmp_path, settings, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    assert report_json(tmp_path, capsys)["edges"] == [
        "the best width, 48, is the largest of its values; try larger ones"
    ]
