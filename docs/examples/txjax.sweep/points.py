"""Points of a sweep.

What `sweep()` of a config file returns: three sizes with two seeds each, and another learning rate.
"""

from txjax import sweep

sizes = sweep.zip({"model.width": [64, 128, 256], "model.heads": [2, 4, 8]})
points = sweep.chain(sweep.grid(sizes, {"seed": [0, 1]}), [{"optimizer.peak_lr": 1e-2}])
for point in points:
    print(point)
# {'model.width': 64, 'model.heads': 2, 'name': 'width=64,seed=0', 'seed': 0}
# {'model.width': 64, 'model.heads': 2, 'name': 'width=64,seed=1', 'seed': 1}
# {'model.width': 128, 'model.heads': 4, 'name': 'width=128,seed=0', 'seed': 0}
# {'model.width': 128, 'model.heads': 4, 'name': 'width=128,seed=1', 'seed': 1}
# {'model.width': 256, 'model.heads': 8, 'name': 'width=256,seed=0', 'seed': 0}
# {'model.width': 256, 'model.heads': 8, 'name': 'width=256,seed=1', 'seed': 1}
# {'optimizer.peak_lr': 0.01}
