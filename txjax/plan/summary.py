"""The summary of a plan: whether it fits, and time and cost of the whole run."""

from txjax.numbers import byte_size, duration
from txjax.plan.price import Plan


def summary(plan: Plan, runs: int = 1, price: float | None = None) -> list[tuple[str, str]]:
    """Names and values: memory with its verdict, a step, all steps, MFU, device-hours, the cost where there is a price.

    Args:
      runs: runs like this one.
      price: of a device-hour, in any currency.
    """
    slowest = max(plan.seconds, key=lambda name: plan.seconds[name])
    hours = plan.device_hours * runs
    rows = [
        ("memory of a device", verdict(plan)),
        ("a step at best", f"{duration(plan.step_seconds)}, as long as {slowest} takes"),
        (f"{plan.num_steps:,} steps at best", duration(plan.num_steps * plan.step_seconds)),
        ("MFU at best", f"{plan.mfu:.1%}"),
        ("device-hours" if runs == 1 else f"device-hours of {runs:,} runs", _amount(hours)),
    ]
    return rows if price is None else [*rows, ("cost", _amount(hours * price))]


def verdict(plan: Plan) -> str:
    """Whether a step fits: `12 GiB of 16 GiB, fits`."""
    room = plan.target.chip.memory
    excess = byte_size(max(plan.total_bytes - room, 0))
    words = "fits" if plan.fits else f"DOES NOT FIT, {excess} too much"
    return f"{byte_size(plan.total_bytes)} of {byte_size(room)}, {words}"


def _amount(value: float) -> str:
    """Two digits after the point, of less than one three significant digits."""
    if value < 0.001:
        return "less than 0.001"
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
