"""The layout of a run: parameter -> logical axes -> mesh axes -> bytes a device, as rows and as an HTML page."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from txjax.plan.price import Plan
from txjax.sharding import is_axes
from txjax.train.state import Layout
from txjax.types import flat_paths

_STYLE = """
:root { color-scheme: light dark; --paper: #f6f7f9; --ink: #1f2933; --faint: #6b7785; --rule: #dfe3e9; --bar: #4c78a8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0f1216; --ink: #e6eaf0; --faint: #93a0b0; --rule: #2b323c; --bar: #6f9ed3; }
}
body { margin: 0 auto; padding: 2.5rem 1.5rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; border-bottom: 1px solid var(--rule); }
th { color: var(--faint); } td:last-child { width: 30%; }
.bar { background: var(--bar); height: 0.7rem; border-radius: 2px; min-width: 1px; }
.axis { display: inline-block; padding: 0 0.4rem; margin-right: 0.25rem; border: 1px solid var(--rule);
  border-radius: 4px; } .split { border-color: var(--bar); }
"""


def layout_rows(layout: Layout) -> list[dict[str, Any]]:
    """A row for every parameter: its name, shape, logical axes, mesh axes, bytes on one device."""
    axes = flat_paths(layout.axes, is_leaf=is_axes)
    rows = []
    for path, x in (flat_paths(layout.abstract.params) | flat_paths(layout.abstract.frozen)).items():
        spec = [_split(entry, x.sharding.mesh.shape) for entry in x.sharding.spec]
        rows.append(
            {
                "parameter": path,
                "shape": list(x.shape),
                "axes": ", ".join(name or "-" for name in axes[path]),
                "partition": ", ".join(spec + ["-"] * (len(x.shape) - len(spec))),
                "bytes_per_device": math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize,
            }
        )
    return rows


def _split(entry: Any, sizes: Mapping[str, int]) -> str:
    """The mesh axes that really split a dimension."""
    over = (entry,) if isinstance(entry, str) else entry or ()
    return "+".join(axis for axis in over if sizes[axis] > 1) or "-"


def page(title: str, plan: Plan, rows: Sequence[dict[str, Any]]) -> str:
    """The page: memory and time as bars, and every parameter's place. No other file, no network."""
    mesh = ", ".join(f"{axis} {size}" for axis, size in plan.mesh.items() if size > 1) or "one device"
    largest = max((row["bytes_per_device"] for row in rows), default=1)
    memory = {name: size / 2**30 for name, size in plan.bytes.items()}
    body = [
        f"<h1>{html.escape(title)}</h1><p>Mesh: {html.escape(mesh)}</p>",
        _bars("Memory of a device, GiB", memory, plan.target.chip.memory / 2**30),
        _bars("Seconds of a step, each part alone", plan.seconds, max(plan.seconds.values())),
        "<h2>Layout</h2><table><tr><th>parameter</th><th>logical axis and size → mesh axis</th><th>MiB a device</th>"
        "<th></th></tr>",
    ]
    for row in rows:
        size = row["bytes_per_device"]
        parts = zip(row["axes"].split(", "), row["shape"], row["partition"].split(", "), strict=False)
        axes = "".join(
            f'<span class="axis{" split" if over != "-" else ""}">{html.escape(name)} {length}'
            f"{' → ' + html.escape(over) if over != '-' else ''}</span>"
            for name, length, over in parts
        )
        body.append(
            f"<tr><td>{html.escape(row['parameter'])}</td><td>{axes}</td><td>{size / 2**20:.3f}</td>"
            f"<td>{_bar(size / largest)}</td></tr>"
        )
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</table></body></html>\n'


def _bars(title: str, values: dict[str, float], whole: float) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{value:.4f}</td><td>{_bar(value / whole)}</td></tr>"
        for name, value in values.items()
    )
    return f"<h2>{html.escape(title)} (of {whole:.4f})</h2><table>{rows}</table>"


def _bar(share: float) -> str:
    return f'<div class="bar" style="width: {min(share, 1):.1%}"></div>'
