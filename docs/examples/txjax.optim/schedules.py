"""Schedules.

The learning rate at six steps of a run of 1,000.
"""

from txjax.optim import Constant, Cosine, InverseSquareRoot, Linear, StepDecay, WarmupStableDecay

schedules = (
    Constant(warmup_steps=100),
    Cosine(warmup_steps=100, final=0.1),
    Linear(warmup_steps=100),
    InverseSquareRoot(warmup_steps=100),
    StepDecay(warmup_steps=100, at=(0.5, 0.75), factor=0.1),
    WarmupStableDecay(warmup_steps=100, decay_steps=200),
)
for schedule in schedules:
    lr = schedule(peak_lr=1.0, num_steps=1000)
    print(type(schedule).__name__, *(f"{lr(step):.2f}" for step in (0, 100, 300, 500, 800, 999)))
# Constant 0.01 1.00 1.00 1.00 1.00 1.00
# Cosine 0.01 1.00 0.89 0.63 0.21 0.10
# Linear 0.01 1.00 0.78 0.56 0.22 0.00
# InverseSquareRoot 0.01 1.00 0.58 0.45 0.35 0.32
# StepDecay 0.01 1.00 1.00 0.10 0.01 0.01
# WarmupStableDecay 0.01 1.00 1.00 1.00 1.00 0.00
