"""A small ViT that reads scikit-learn's scanned digits: 8x8 pixels, 1,500 to train on and 297 held out.

    txjax train --config=configs/vision/vit_digits.py --workdir=runs/vit_digits

Cost: about 2 minutes on two CPU cores.
Score: eval/test/accuracy 0.993 of the held-out digits.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    return Experiment(
        model=ViT(patch=2, head=Classes(None, MeanTokens()), width=64, depth=4, heads=4, class_token=None, dropout=0.2),
        objective=Classification(),
        data=Images(name="txjax_digits", split="train", shape=(8, 8, 1), mean=(0.3,), std=(0.35,)),
        evals={"test": Evaluation(data=Images(split="test"), every_steps=200)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
        num_steps=1200,
        batch_size=64,
        log_every_steps=25,
    )
