"""The HTML page of a plan: memory and time as bars, and the sharding of every parameter."""

from collections.abc import Sequence
from typing import Any

from txjax.plan.price import Plan
from txjax.report.render import render


def page(title: str, plan: Plan, rows: Sequence[dict[str, Any]]) -> str:
    """The HTML page of a plan.

    Args:
      rows: the result of `layout_rows`.
    """
    mesh = ", ".join(f"{axis} {size}" for axis, size in plan.mesh.items() if size > 1) or "one device"
    memory = {name: size / 2**30 for name, size in plan.bytes.items()}
    charts = [
        {"title": "Memory of a device, GiB", "parts": memory, "whole": plan.target.chip.memory / 2**30},
        {"title": "Seconds of a step, each part alone", "parts": plan.seconds, "whole": max(plan.seconds.values())},
    ]
    largest = max((row["bytes_per_device"] for row in rows), default=1)
    layout = [{"parameter": r["parameter"], "axes": _axes(r), "bytes": r["bytes_per_device"]} for r in rows]
    return render("plan.html", title, f"Mesh: {mesh}", charts=charts, rows=layout, largest=largest)


def _axes(row: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Name, size and mesh axis of each dimension; the mesh axis is "" if it is not sharded."""
    partition = ["" if over == "-" else over for over in row["partition"].split(", ")]
    return list(zip(row["axes"].split(", "), row["shape"], partition, strict=False))
