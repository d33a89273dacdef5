"""One HTML page about runs, with everything in it: no other file, no network, light and dark."""

import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from txjax.log import Value
from txjax.numbers import full, rounded
from txjax.report.gallery import STYLE as GALLERY_STYLE
from txjax.report.gallery import gallery, png_address
from txjax.report.runs import Run
from txjax.scaling import registered
from txjax.train import goodput
from txjax.tree import flatten

_FOLDED = ("perf/", "goodput")  # measured of the machine, not of the model

STYLE = """
:root { color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #1f2933; --faint: #6b7785; --rule: #e6e9ee; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0f1216; --card: #171b21; --ink: #e6eaf0; --faint: #93a0b0; --rule: #2b323c; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3rem 1.5rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
a { color: inherit; text-decoration-color: var(--faint); text-underline-offset: 0.2em; }
h2 { font-size: 1.05rem; margin: 2.5rem 0 0.75rem; }
p { color: var(--faint); margin: 0.25rem 0 1.5rem; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px;
  padding: 1rem 1.25rem; overflow-x: auto; }
img { display: block; width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.75rem; text-align: right; border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
"""


def page(runs: Sequence[Run], light: bytes, dark: bytes) -> str:
    """The page: curves (PNG, for light and dark screens), what evaluators made, scores, configs, versions."""
    parts = [
        picture("curves of loss, learning rate, gradient norm and throughput", light, dark),
        gallery(runs),
        _final(runs, [scores(run) for run in runs]),
    ]
    configs = [flatten(run.config) if run.config else {} for run in runs]
    if len(runs) > 1:
        parts.append(_section("Differences of the configs", runs, _differing(configs)))
    parts.append(_section("Code, versions and devices", runs, [flatten(_made_by(run)) for run in runs]))
    if len(runs) == 1:
        parts.append(_section("Config", runs, configs))
    return document(" · ".join(run.name for run in runs), _subtitle(runs), parts, GALLERY_STYLE)


def document(title: str, subtitle: str, parts: Sequence[str], style: str = "", script: str = "") -> str:
    """A whole page: a heading and its parts, which are HTML. `style` and `script` go beside what all pages have."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{text(title)}</title>'
    head += f"<style>{STYLE}{style}</style>"
    body = "\n".join([f"<h1>{text(title)}</h1><p>{text(subtitle)}</p>", *parts])
    body += f"\n<script>{script}</script>" if script else ""
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def picture(shows: str, light: bytes, dark: bytes) -> str:
    """A card with a picture, PNG for light and for dark screens, and what it shows in words."""
    return (
        f'<div class="card"><picture><source media="(prefers-color-scheme: dark)" srcset="{png_address(dark)}">'
        f'<img alt="{text(shows)}" src="{png_address(light)}"></picture></div>'
    )


def scores(run: Run) -> dict[str, Value]:
    """The last value of every metric, the best eval losses, its progress, where its seconds went, what was foretold."""
    best = {}
    for key in run.metrics():
        steps, values = run.series(key)
        if key.startswith("eval/") and key.endswith("/loss") and values:
            best[f"best/{key}"] = min(values)
            best[f"best/{key.removesuffix('loss')}step"] = steps[values.index(min(values))]
    told = {key: run.manifest[key] for key in ("parameters", "flops_per_step") if key in run.manifest}
    last = {key: value for key, value in run.last().items() if key != "train/batch_hash"}
    seconds = goodput.goodput_metrics(goodput.read(run.workdir))  # newer than the log's: it has what a kill cut off
    step = int(run.rows[-1]["step"]) if run.rows else 0
    planned = run.config.get("num_steps")
    over = step >= (planned if isinstance(planned, int) else 0)
    foretold = registered.score(run.workdir, last if over else {})
    return {"step": step} | last | best | seconds | told | foretold


def png(figure: Figure) -> bytes:
    """The picture as the bytes of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _subtitle(runs: Sequence[Run]) -> str:
    models = [str(flatten(run.config).get("model.class", "")).rpartition(".")[2] for run in runs]
    dates = [str(run.manifest.get("created", ""))[:10] for run in runs]
    return " · ".join(dict.fromkeys(word for word in (*models, *dates) if word))


def _made_by(run: Run) -> dict[str, Any]:
    return {key: run.manifest[key] for key in ("git", "python", "versions", "devices", "data") if key in run.manifest}


def _differing(columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for column in columns for name in column)
    differing = [n for n in names if any(c.get(n, ...) != columns[0].get(n, ...) for c in columns)]
    return [{name: column[name] for name in differing if name in column} for column in columns]


def _section(title: str, runs: Sequence[Run], columns: Sequence[Mapping[str, Any]]) -> str:
    return f'<h2>{title}</h2>\n<div class="card">{_table(runs, columns)}</div>'


def _final(runs: Sequence[Run], columns: Sequence[Mapping[str, Any]]) -> str:
    """The section of the last values: scores in sight, speeds and seconds folded away and rounded."""
    scores = [{name: x for name, x in column.items() if not name.startswith(_FOLDED)} for column in columns]
    rest = [{name: rounded(x) for name, x in column.items() if name.startswith(_FOLDED)} for column in columns]
    folded = f"<details><summary>perf/ and goodput/</summary>{_table(runs, rest)}</details>" if any(rest) else ""
    return f'<h2>Final metrics</h2>\n<div class="card">{_table(runs, scores)}{folded}</div>'


def _table(runs: Sequence[Run], columns: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for column in columns for name in column))
    if not names:
        return "none"
    head = "".join(f"<th>{text(name)}</th>" for name in ("", *(run.name for run in runs)))
    cells = [[name, *(full(column[name]) if name in column else "–" for column in columns)] for name in names]
    rows = "\n".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in cells)
    return f"<table><tr>{head}</tr>\n{rows}</table>"


def text(words: str) -> str:
    """Words as HTML, whatever stands in them."""
    return html.escape(words)
