"""Learning rate schedules: a warmup, then a decay.

Updates are numbered from 0. With W = warmup_steps, update s uses `peak * (s + 1) / W` for s < W: it is above 0 at the
first update and the peak at number W - 1. From then on it is `decay(t)` with t = s - W; t = 0 is the peak.
"""

import dataclasses
import itertools
import math

import jax.numpy as jnp
import optax

from txjax.errors import UserError
from txjax.types import config_field

PROGRESS = ("steps", "examples", "tokens")
_TRIAL = "for a short trial of the run as it is: --until=STEP, or --smoke"


@dataclasses.dataclass
class Schedule:
    """Base of all schedules; a subclass has the decay after the warmup.

    Attributes:
      warmup_steps: updates of the linear warmup, W; 0 starts at the peak.
      progress: what the learning rate follows where batches change (`Experiment.changes`): the updates, or the examples
        or tokens of them. Then an update counts for as many as its batch has more than the first one (`Paced`).
    """

    warmup_steps: int = config_field(100, at_least=0)
    _: dataclasses.KW_ONLY
    progress: str = config_field("steps", choices=PROGRESS)

    def __call__(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        """The learning rate (float32 []) of each update (int32 [], from 0) in a run of `num_steps` updates.

        Raises:
          UserError: a warmup that is longer than the run.
        """
        warmup = self.warmup_steps
        if warmup > num_steps:
            raise UserError(
                "config.optimizer.schedule.warmup_steps",
                f"at most config.num_steps = {num_steps}",
                warmup,
                hint=f"shorten the warmup or train longer; {_TRIAL}",
            )
        decay = self.decay(peak_lr, num_steps - warmup)
        if warmup == 0:
            return decay
        return optax.join_schedules([optax.linear_schedule(peak_lr / warmup, peak_lr, warmup - 1), decay], [warmup])

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        """The learning rate at t updates after the warmup, of which `num_steps` are left."""
        raise NotImplementedError


@dataclasses.dataclass
class Constant(Schedule):
    """The constant learning rate `peak`."""

    warmup_steps: int = config_field(0, at_least=0)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        return optax.constant_schedule(peak_lr)


@dataclasses.dataclass
class Cosine(Schedule):
    """Half a cosine from the peak to `final * peak` at the end (Loshchilov & Hutter 2017, SGDR, eq. 5, one cycle).

    Attributes:
      final: where it ends, as a fraction of the peak. The last update is one step short of it.
    """

    final: float = config_field(0.1, at_least=0, at_most=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        return optax.cosine_decay_schedule(peak_lr, max(num_steps, 1), alpha=self.final)


@dataclasses.dataclass
class Linear(Schedule):
    """A straight line from the peak to `final * peak` at the end; the last update is one step short of it."""

    final: float = config_field(0.0, at_least=0, at_most=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        return optax.linear_schedule(peak_lr, self.final * peak_lr, max(num_steps, 1))


@dataclasses.dataclass
class WarmupStableDecay(Schedule):
    """The peak until the last `decay_steps` updates, then a line to `final * peak` (Hu et al. 2024, MiniCPM, eq. 1).

    Before the decay nothing depends on the length of the run, so a longer run can resume from a checkpoint of it.

    Attributes:
      decay_steps: updates of the decay. If None, a fifth of those after the warmup (Hägele et al. 2024).
    """

    decay_steps: int | None = config_field(None, at_least=1)
    final: float = config_field(0.0, at_least=0, at_most=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        steps = round(num_steps / 5) if self.decay_steps is None else self.decay_steps
        if steps > num_steps:
            raise UserError(
                "config.optimizer.schedule.decay_steps",
                f"at most the {num_steps} updates after the warmup",
                steps,
                hint=f"shorten the decay or train longer; {_TRIAL}",
            )
        return optax.linear_schedule(peak_lr, self.final * peak_lr, steps, transition_begin=num_steps - steps)


@dataclasses.dataclass
class InverseSquareRoot(Schedule):
    """`peak * sqrt(W / (s + 1))` after the warmup (Vaswani et al. 2017, eq. 3), for a run of any length.

    Attributes:
      hold_steps: H, updates until the peak begins to fall: `peak * sqrt(H / max(s + 1, H))`. If None, the warmup's. T5
        (Raffel et al. 2020, 3.1.3) has a peak of 0.01, no warmup and 10,000.
    """

    hold_steps: int | None = config_field(None, at_least=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        warmup = self.warmup_steps
        hold = self.warmup_steps if self.hold_steps is None else self.hold_steps
        if hold < max(warmup, 1):
            field = "warmup_steps" if self.hold_steps is None else "hold_steps"
            raise UserError(f"config.optimizer.schedule.{field}", f"at least {max(warmup, 1)}", hold)
        if hold == warmup:
            return lambda t: peak_lr * math.sqrt(hold) * (t + warmup + 1.0) ** -0.5
        return lambda t: peak_lr * math.sqrt(hold) * jnp.maximum(t + warmup + 1.0, hold) ** -0.5


@dataclasses.dataclass
class StepDecay(Schedule):
    """The peak, multiplied by `factor` at some fractions of the run (He et al. 2016).

    Attributes:
      at: fractions of all updates, the warmup's among them, rising; by default a third, two thirds and eight ninths, as
        30, 60 and 80 of 90 epochs.
      factor: of the learning rate at each of them.
    """

    at: tuple[float, ...] = (1 / 3, 2 / 3, 8 / 9)
    factor: float = config_field(0.1, above=0, below=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        """Raises UserError unless the fractions rise and lie between the warmup and the end."""
        warmup = self.warmup_steps
        steps = [round(fraction * (num_steps + warmup)) - warmup for fraction in self.at]
        if sorted(set(steps)) != steps or any(not 0 <= step <= num_steps for step in steps):
            expected = f"rising fractions of {num_steps + warmup} updates, after a warmup of {warmup}"
            raise UserError("config.optimizer.schedule.at", expected, self.at)
        return optax.piecewise_constant_schedule(peak_lr, dict.fromkeys(steps, self.factor))


@dataclasses.dataclass
class RangeTest(Schedule):
    """A learning rate that rises exponentially to the peak, its last update's, for a test of rates (Smith 2017, 3.3).

    `txjax report` says at which rate the loss of such a run fell fastest (`report.rate_range`).

    Attributes:
      low: where it begins, as a fraction of the peak.
    """

    warmup_steps: int = config_field(0, at_least=0)
    low: float = config_field(1e-5, above=0, below=1)

    def decay(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        return optax.exponential_decay(self.low * peak_lr, max(num_steps - 1, 1), 1 / self.low)


@dataclasses.dataclass
class Paced(Schedule):
    """A schedule of updates that count for one, for less or for more: its steps are steps of the first batch.

    Update s is where the schedule has its update u(s) = sum of `pace` over the updates before s, of u(num_steps).

    Attributes:
      schedule: what is paced.
      begins: the updates from which each pace is, the first of them 0.
      paces: what an update counts for; the first one is 1.
    """

    schedule: Schedule = config_field(factory=Cosine)
    begins: tuple[int, ...] = (0,)
    paces: tuple[float, ...] = (1.0,)

    def __call__(self, peak_lr: float, num_steps: int) -> optax.Schedule:
        ends = [*self.begins[1:], num_steps]
        parts = [pace * (end - begin) for begin, end, pace in zip(self.begins, ends, self.paces, strict=True)]
        counts = [0.0, *itertools.accumulate(parts)]
        try:
            rate = self.schedule(peak_lr, math.ceil(counts[-1]))
        except UserError as error:
            unit = self.schedule.progress
            raise error.with_hint(f"in steps of the first batch, since the schedule counts {unit}") from None
        return lambda s: rate(jnp.interp(s, jnp.array([*self.begins, num_steps]), jnp.array(counts)))
