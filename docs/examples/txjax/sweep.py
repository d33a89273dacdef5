"""Runs of a sweep.

Each run has a process of its own.
"""

import txjax
from txjax import sweep

points = sweep.grid({"model.width": [24, 48], "seed": [0]})
runs = txjax.fit_sweep("txjax:text/gpt_tiny", "runs/widths", points, {"num_steps": 20, "evals.valid.max_batches": 1})
for name, run in runs.items():
    print(name, run.finished)
# width=24,seed=0 True
# width=48,seed=0 True
