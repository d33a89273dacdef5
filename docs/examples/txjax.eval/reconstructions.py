"""Pictures of reconstructions.

What a masked autoencoder restores.
"""

import txjax
from txjax.data import Images
from txjax.eval import Reconstructions

experiment = txjax.load_config("txjax:vision/mae_digits", {"trackers": (), "checkpoint.best": None})
digits = Images(split="test", shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
experiment.evals = {"painted": Reconstructions(data=digits, every_steps=2, count=8)}
run = txjax.fit(experiment, "runs/mae", until=2)
print(sorted(path.name for path in (run.workdir / "pictures" / "painted").iterdir()))
# ['2.png']
