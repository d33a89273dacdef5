"""Checkpoints.

A run keeps the newest three, and the best by a score of its evaluation `valid`.
"""

from txjax.checkpoint import Checkpoints

checkpoint = Checkpoints(every_steps=1000, keep=3, best="eval/valid/loss", best_mode="min")
print(checkpoint.keep, checkpoint.best)  # 3 eval/valid/loss
