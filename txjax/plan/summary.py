"""The summary of a plan: whether it fits, and time and cost of the whole run."""

from collections.abc import Sequence

from txjax.changes import Phase
from txjax.numbers import byte_size, duration
from txjax.plan.price import Plan
from txjax.plan.rooflines import Estimate
from txjax.plan.target import MEMORY_SHARE, Target


def summary(plan: Plan, runs: int = 1, price: float | None = None) -> list[tuple[str, str]]:
    """Names and values: memory with its verdict, a step, all steps, MFU, device-hours, the cost where there is a price.

    Args:
      runs: runs like this one.
      price: of a device-hour, in any currency.
    """
    slowest = max(plan.seconds, key=lambda name: plan.seconds[name])
    hours = plan.device_hours * runs
    estimated = ", estimated" if plan.estimate else ""
    word = estimated or " at best"
    step = f"{duration(plan.least_seconds)}, as long as {slowest} takes"
    of_runs = "" if runs == 1 else f" of {runs:,} runs"
    rows = [
        ("memory of a device", verdict(plan)),
        *_estimated(plan.estimate),
        ("a step at best", step),
        (f"{plan.num_steps:,} steps{word}", duration(plan.num_steps * plan.step_seconds)),
        (f"MFU{word}", f"{plan.mfu:.1%}"),
        (f"device-hours{of_runs}{estimated}", _amount(hours)),
    ]
    return rows if price is None else [*rows, ("cost", _amount(hours * price))]


def change_rows(run: Sequence[Phase], planned: Phase) -> list[tuple[str, str]]:
    """What changes during a run, and which phase of it is planned, as rows above a summary; none if nothing changes."""
    if len(run) == 1:
        return []
    titles = "; ".join(phase.title for phase in run[1:])
    begin = f"the phase from step {planned.begin:,}, whose microbatches take the most FLOPs"
    return [("changes", titles), ("all figures are of", begin)]


def limit_rows(target: Target) -> list[tuple[str, str]]:
    """What the figures of a target leave out, as rows below a summary."""
    return [("limits" if i == 0 else "", limit) for i, limit in enumerate(target.limits)]


def verdict(plan: Plan) -> str:
    """Whether a step fits: `12 GiB of 16 GiB, fits`."""
    target = plan.target
    excess = byte_size(max(plan.total_bytes - target.room, 0))
    share = "" if target.memory_share == 1 else f" ({target.memory_share:.0%}, by {MEMORY_SHARE})"
    words = "fits" if plan.fits else f"DOES NOT FIT, {excess} too much"
    return f"{byte_size(plan.total_bytes)} of {byte_size(target.room)}{share}, {words}"


def _estimated(estimate: Estimate | None) -> list[tuple[str, str]]:
    """The estimated time of a step, and how much of it kernels wait for exchanges."""
    if estimate is None:
        return []
    waits = f"{duration(estimate.parts['waiting for exchanges'])} of it waiting for exchanges"
    return [("a step, estimated", f"{duration(estimate.seconds)}, {waits}")]


def _amount(value: float) -> str:
    """Two digits after the point, of less than one three significant digits."""
    if value < 0.001:
        return "less than 0.001"
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
