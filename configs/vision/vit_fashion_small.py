"""A tiny ViT of all of `fashion_mnist` at half its size, 14x14 pixels: what `vit_digits_large.py` starts from.

    txjax train --config=configs/vision/vit_fashion_small.py --workdir=runs/small

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder.

Cost: 4.2e12 FLOPs, about 2 minutes on two CPU cores.
Score: eval/test/accuracy 0.748 of `test` where it was stopped after 334 of its 1,000 steps.
"""

from txjax.data import Flip, Images, Resize
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, Learned, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    held_out = Images(split="test", transforms=(Resize(14),))
    return Experiment(
        model=ViT(
            patch=2,
            head=Classes(None, MeanTokens()),
            width=64,
            depth=4,
            heads=4,
            class_token=None,
            positions=Learned(max_length=49),
        ),
        objective=Classification(),
        data=Images(
            name="fashion_mnist",
            split="train",
            transforms=(Resize(14), Flip()),
            shape=(14, 14, 1),
            mean=(0.286,),
            std=(0.353,),
        ),
        evals={"test": Evaluation(data=held_out, every_steps=500, batch_size=256)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        num_steps=1000,
        batch_size=64,
        log_every_steps=50,
    )
