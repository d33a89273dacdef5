"""Every schedule against its formula, written again in plain Python."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.optim import Constant, Cosine, InverseSquareRoot, Linear, Schedule, StepDecay, WarmupStableDecay
from txjax.optim.schedules import Paced, RangeTest
from txjax.types import UserError

PEAK = 0.5
STEPS = 20
WARMUP = 4

FORMULAS = {
    "constant": (Constant(WARMUP), lambda s: PEAK),
    "cosine": (
        Cosine(WARMUP, final=0.1),
        lambda s: PEAK * (0.1 + 0.9 * (1 + math.cos(math.pi * (s - WARMUP) / (STEPS - WARMUP))) / 2),
    ),
    "linear": (Linear(WARMUP, final=0.2), lambda s: PEAK * (1 - 0.8 * (s - WARMUP) / (STEPS - WARMUP))),
    "stable": (WarmupStableDecay(WARMUP, decay_steps=5), lambda s: PEAK * min(1.0, (STEPS - s) / 5)),
    "range": (RangeTest(WARMUP, low=0.01), lambda s: PEAK * 0.01 ** ((STEPS - 1 - s) / (STEPS - 1 - WARMUP))),
    "root": (InverseSquareRoot(WARMUP), lambda s: PEAK * math.sqrt(WARMUP / (s + 1))),
    "steps": (StepDecay(WARMUP, at=(0.3, 0.7), factor=0.2), lambda s: PEAK * 0.2 ** ((s >= 6) + (s >= 14))),
    "held": (InverseSquareRoot(WARMUP, hold_steps=10), lambda s: PEAK * math.sqrt(10 / max(s + 1, 10))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    schedule, after = FORMULAS[name]
    expected = [PEAK * (s + 1) / WARMUP if s < WARMUP else after(s) for s in range(STEPS)]
    actual = jax.vmap(schedule(PEAK, STEPS))(jnp.arange(STEPS))
    np.testing.assert_allclose(actual, expected, rtol=2e-6)
    assert actual.dtype == jnp.float32


@pytest.mark.parametrize("schedule", [Cosine(), Linear(), Constant(), WarmupStableDecay(), InverseSquareRoot()])
@pytest.mark.parametrize("warmup", [1, 10])
def test_first_and_last_update_of_the_warmup(schedule: Schedule, warmup: int) -> None:
    schedule.warmup_steps = warmup
    rates = jax.vmap(schedule(PEAK, 10))(jnp.arange(10))
    assert rates.min() > 0
    assert rates[warmup - 1] == rates.max() == PEAK


def test_without_warmup_the_first_update_runs_at_the_peak() -> None:
    assert Cosine(warmup_steps=0)(PEAK, STEPS)(0) == PEAK


def test_stable_phase_does_not_depend_on_the_length_of_the_run() -> None:
    short, long = (jax.vmap(WarmupStableDecay(2)(PEAK, steps))(jnp.arange(16)) for steps in (20, 100))
    assert (short == long).all()
    assert WarmupStableDecay(0)(PEAK, 20)(17) < PEAK  # a fifth of 20 is 4


def test_invalid_schedules() -> None:
    with pytest.raises(UserError, match=r"schedule.warmup_steps: expected at most config.num_steps = 5, got 100"):
        Cosine()(PEAK, 5)
    with pytest.raises(
        UserError, match=r"schedule.decay_steps: expected at most the 3 updates after the warmup, got 4"
    ):
        WarmupStableDecay(2, decay_steps=4)(PEAK, 5)
    with pytest.raises(UserError, match=r"schedule.at: expected rising fractions of 20 updates, after a warmup of 9"):
        StepDecay(9)(PEAK, STEPS)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_paced_schedule_is_where_the_plain_one_is_after_as_many_examples(name: str) -> None:
    """Batches of 8, 16 and 4: the 20 plain steps of 8 are 4 + 2 * 6 + 8 / 2 of these."""
    schedule, after = FORMULAS[name]
    paced = Paced(schedule=schedule, begins=(0, 4, 10), paces=(1.0, 2.0, 0.5))
    steps = [*range(4), *range(4, 16, 2), *np.arange(16, 20, 0.5).tolist()]
    expected = [PEAK * (u + 1) / WARMUP if u < WARMUP else after(u) for u in steps]
    actual = jax.vmap(paced(PEAK, len(steps)))(jnp.arange(len(steps)))
    np.testing.assert_allclose(actual, expected, rtol=3e-6)


def test_a_paced_warmup_that_is_too_long_says_in_what_it_is_counted() -> None:
    paced = Paced(schedule=Cosine(10, progress="examples"), begins=(0, 4), paces=(1.0, 0.5))
    with pytest.raises(UserError, match="at most config.num_steps = 7, got 10; .*in steps of the first batch"):
        paced(PEAK, 10)
