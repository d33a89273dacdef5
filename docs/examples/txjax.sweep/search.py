"""Points of a search.

They are drawn from ranges, and spread evenly.
"""

from txjax import sweep

ranges = {
    "optimizer.peak_lr": sweep.LogUniform(1e-4, 1e-2),
    "model.dropout": sweep.Uniform(0.0, 0.3),
    "model.depth": sweep.Whole(2, 6),
    "model.heads": [2, 4],
}
for point in sweep.sample(count=4, ranges=ranges, method="sobol", seed=0):
    print({name: round(value, 4) for name, value in point.items()})
# {'optimizer.peak_lr': 0.0007, 'model.dropout': 0.2892, 'model.depth': 6, 'model.heads': 4}
# {'optimizer.peak_lr': 0.0021, 'model.dropout': 0.0791, 'model.depth': 4, 'model.heads': 2}
# {'optimizer.peak_lr': 0.0047, 'model.dropout': 0.207, 'model.depth': 5, 'model.heads': 4}
# {'optimizer.peak_lr': 0.0001, 'model.dropout': 0.007, 'model.depth': 2, 'model.heads': 2}
