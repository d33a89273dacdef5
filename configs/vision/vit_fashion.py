"""A small ViT on 1,000 labelled images of `fashion_mnist`, a hundred of each class; `test` is whole.

    txjax train --config=configs/vision/vit_fashion.py --workdir=runs/vit_fashion

That is from scratch. `--config.init_from=runs/mae_fashion` starts from the encoder of `mae_fashion.py`, and the
variant `probe` trains a linear classifier of its frozen features:

    txjax train --config=configs/vision/vit_fashion.py --workdir=runs/tuned --config.init_from=runs/mae_fashion
    txjax train --config=configs/vision/vit_fashion.py:probe --workdir=runs/probe --config.init_from=runs/mae_fashion

`--config.seed=1 --config.data.subset.seed=1` is another draw and another thousand. The data is TFDS's `fashion_mnist`;
`--config.data.data_dir` or TFDS_DATA_DIR gives its folder.

Cost: 1 to 2 minutes on one of two busy CPU cores.
Score: eval/test/accuracy 0.730 from scratch. Mean and standard error of three seeds: 73.0 ± 0.5% from scratch, 76.0 ±
0.2% from `mae_fashion`, 69.9 ± 0.3% as `probe` (`experiments/transfer/` has every run).
"""

from txjax.data import Flip, Images, PadCrop, Subset
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, MeanTokens, Sinusoidal2D
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine, Group

VARIANTS = ("probe",)


def get_config(variant: str = "") -> Experiment:
    optimizer = AdamW(peak_lr=1e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0))
    if variant == "probe":
        optimizer.groups = Group(r"head/.*", lr=10.0, weight_decay=0.0), Group(r"(?!head/).*", trainable=False)
    return Experiment(
        model=ViT(
            patch=4,
            head=Classes(None, MeanTokens()),
            width=64,
            depth=4,
            heads=4,
            class_token=None,
            positions=Sinusoidal2D(),
        ),
        objective=Classification(),
        data=Images(
            name="fashion_mnist",
            split="train",
            transforms=(PadCrop(2), Flip()),
            subset=Subset(per_class=100),
            shape=(28, 28, 1),
            mean=(0.286,),
            std=(0.353,),
        ),
        evals={"test": Evaluation(data=Images(split="test"), every_steps=300)},
        optimizer=optimizer,
        num_steps=600,
        batch_size=64,
        log_every_steps=25,
    )
