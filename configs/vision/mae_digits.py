"""A small masked autoencoder of scanned digits: three patches in four are hidden, their pixels predicted.

    txjax train --config=configs/vision/mae_digits.py --workdir=runs/mae_digits

Cost: about 4 minutes on two CPU cores.
Score: eval/test/loss 0.406, mean squared error of normalised pixels of held-out digits; 0.561 after 250 steps.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation, Reconstructions
from txjax.experiment import Experiment
from txjax.models.vision.mae.mae import MAE
from txjax.objectives import MaskedPatch
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    digits = dict(shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    return Experiment(
        model=MAE(
            patch=2,
            width=64,
            depth=4,
            heads=4,
            decoder_width=32,
            decoder_depth=2,
            decoder_heads=2,
        ),
        objective=MaskedPatch(rate=0.75),
        data=Images(name="txjax_digits", split="train", **digits),
        evals={
            "test": Evaluation(data=Images(split="test", **digits), every_steps=250),
            "painted": Reconstructions(data=Images(split="test", **digits), every_steps=250),
        },
        optimizer=AdamW(peak_lr=2e-3, b2=0.95, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=250, best="eval/test/loss"),
        num_steps=1500,
        batch_size=64,
        log_every_steps=50,
    )
