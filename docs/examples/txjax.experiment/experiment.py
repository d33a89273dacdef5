"""A whole run as one value.

What `get_config` of a config file returns, and `txjax.fit` trains. Building it allocates nothing.
"""

import dataclasses

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine

digits = dict(name="txjax_digits", shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
experiment = Experiment(
    model=ViT(patch=2, width=64, depth=4, heads=4, class_token=None, head=Classes(10, MeanTokens())),
    objective=Classification(),
    data=Images(**digits, split="train"),
    evals={"test": Evaluation(data=Images(**digits, split="test"), every_steps=200)},
    optimizer=AdamW(peak_lr=2e-3, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
    checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
    num_steps=1200,
    batch_size=64,
)
wider = dataclasses.replace(experiment, model=experiment.model.clone(width=128), seed=1)
print(wider.model.width, wider.model.depth, wider.data.shape)  # 128 4 (8, 8, 1)
