"""A schedule of your own.

After the warmup the learning rate halves every `half` steps.
"""

import dataclasses

from txjax.optim import AdamW, Schedule
from txjax.types import config_field


@dataclasses.dataclass
class Halving(Schedule):
    """peak / 2^(t / half) after t steps."""

    half: int = config_field(100, at_least=1)

    def decay(self, peak_lr, num_steps):
        return lambda t: peak_lr * 0.5 ** (t / self.half)


optimizer = AdamW(peak_lr=1e-3, schedule=Halving(warmup_steps=50, half=200))
lr = optimizer.lr(num_steps=1000)
print(*(f"{lr(step):.6f}" for step in (0, 50, 250, 450)))
# 0.000020 0.001000 0.000500 0.000250
