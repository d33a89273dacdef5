"""The largest batch and the fewest microbatches whose step fits the devices, by bisection of compiled programs."""

import bisect
from collections.abc import Sequence

from txjax.plan.layouts import Choice, Flags, Load, is_possible, plan_of
from txjax.plan.target import Target

OCTAVES = 10  # the largest batch that is tried is the config's, times two to this power


def batch_limits(load: Load, target: Target) -> list[Choice]:
    """The step with the largest batch, with as many microbatches as the config, and the one with the fewest of these.

    Batches are the config's times two to a whole power, and once and a half of these. Both keep the config's mesh and
    rematerialisation. One is left out if none of its steps fits.
    """
    whole = load(()).batch_size
    powers = [whole * 2.0**i for i in range(1 - whole.bit_length(), OCTAVES + 1)]
    sizes = sorted({size for power in powers for size in (power, 1.5 * power)})
    batches = [round(size) for size in sizes if size.is_integer()]
    parts = [n for n in range(whole, 0, -1) if whole % n == 0]
    limits = {
        "largest batch": _possible_steps("batch_size", batches, load, target),
        "fewest microbatches": _possible_steps("microbatches", parts, load, target),
    }
    choices = [_last_that_fits(aim, steps, load, target) for aim, steps in limits.items()]
    return [choice for choice in choices if choice is not None]


def _possible_steps(field: str, values: Sequence[int], load: Load, target: Target) -> list[Flags]:
    """The flags of values that divide, and are the planned phase's: `Experiment.changes` may set others there."""
    choices = [(value, (f"--config.{field}={value}",)) for value in values]
    return [
        flags for value, flags in choices if is_possible(load, flags, target) and getattr(load(flags), field) == value
    ]


def _last_that_fits(aim: str, steps: Sequence[Flags], load: Load, target: Target) -> Choice | None:
    """The last of the steps that fits, each of which needs at least the memory of the one before; None if none does."""
    plans = {}

    def exceeds(flags: Flags) -> bool:
        plans[flags] = plan_of(load(flags), target)
        return not plans[flags].fits

    count = bisect.bisect_left(steps, True, key=exceeds)
    return Choice(steps[count - 1], plans[steps[count - 1]], aim) if count else None
