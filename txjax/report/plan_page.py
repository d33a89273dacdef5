"""The HTML page of a plan: memory and time as bars, and the sharding of every parameter."""

from collections.abc import Sequence
from typing import Any

from txjax.numbers import byte_size, duration
from txjax.plan.price import Plan
from txjax.report.render import render


def page(title: str, plan: Plan, rows: Sequence[dict[str, Any]], facts: Sequence[tuple[str, str]]) -> str:
    """The HTML page of a plan.

    Args:
      rows: the result of `layout_rows`.
      facts: the result of `summary`.
    """
    mesh = ", ".join(f"{axis} {size}" for axis, size in plan.mesh.items() if size > 1) or "one device"
    sizes = plan.bytes | {"all": plan.total_bytes}
    memory = {name: (byte_size(size), size / plan.target.room) for name, size in sizes.items()}
    charts = {
        f"Memory of a device, of {byte_size(plan.target.room)}": memory,
        f"Time of a step, each part alone, of {duration(plan.least_seconds)}": _times(plan.seconds, plan.least_seconds),
    }
    if plan.estimate:
        title = f"Estimated time of a step, {duration(plan.step_seconds)}"
        charts[title] = _times(plan.estimate.parts, plan.step_seconds)
    largest = max((row["bytes_per_device"] for row in rows), default=1)
    layout = [{"parameter": r["parameter"], "axes": _axes(r), "bytes": r["bytes_per_device"]} for r in rows]
    return render("plan.html", title, f"Mesh: {mesh}", facts=facts, charts=charts, rows=layout, largest=largest)


def _times(parts: dict[str, float], whole: float) -> dict[str, tuple[str, float]]:
    """Each part's time and its share of the whole."""
    return {name: (duration(seconds), seconds / whole) for name, seconds in parts.items()}


def _axes(row: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Name, size and mesh axis of each dimension; the mesh axis is "" if it is not sharded."""
    partition = ["" if over == "-" else over for over in row["partition"].split(", ")]
    return list(zip(row["axes"].split(", "), row["shape"], partition, strict=False))
