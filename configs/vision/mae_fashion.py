"""A small masked autoencoder of `fashion_mnist`: three patches in four are hidden, their pixels predicted.

    txjax train --config=configs/vision/mae_fashion.py --workdir=runs/mae_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Labels are
not used. `vit_fashion.py` can start from the encoder.

Cost: 4 to 7 minutes on one of two busy CPU cores.
Score: eval/test/loss 0.499 ± 0.002, mean squared error of normalised pixels of `test` (first 8 batches), three seeds.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation, Reconstructions
from txjax.experiment import Experiment
from txjax.models.vision.mae.mae import MAE
from txjax.objectives import MaskedPatch
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        model=MAE(
            patch=4,
            width=64,
            depth=4,
            heads=4,
            class_token=None,
            decoder_width=32,
            decoder_depth=1,
            decoder_heads=2,
        ),
        objective=MaskedPatch(rate=0.75),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={
            "test": Evaluation(data=Images(split="test", **fashion), every_steps=1000, max_batches=8),
            "painted": Reconstructions(data=Images(split="test", **fashion), every_steps=1000, count=8),
        },
        optimizer=AdamW(peak_lr=1e-3, b2=0.95, weight_decay=0.05, schedule=Cosine(warmup_steps=200, final=0.0)),
        checkpoint=Checkpoints(every_steps=1000),
        num_steps=3000,
        batch_size=64,
        log_every_steps=50,
    )
