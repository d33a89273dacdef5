"""A small ViT that classifies photos of your own, in a folder for each class, from scratch.

    txjax train --config=txjax:vision/vit_folder --config.data.source=photos --workdir=runs/photos

Photos of any size are brought to 64 x 64 pixels: parts of them, some mirrored, to train on, and their middle to be
evaluated. A tenth of them is held out for `eval/test` (docs/your_data.md). The model has as many classes as the folder.
Without a folder it reads scikit-learn's scanned digits, which are much smaller. `txjax export` makes a folder of it
that Hugging Face's ViTForImageClassification loads.

Cost: 3 minutes on one of two busy CPU cores.
Score: eval/test/accuracy 0.583 of the scanned digits, which are no photos: a part of a digit may be another one.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Channels, Flip, Images, RandomResizedCrop, Resize
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Learned
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine

SIDE = 64
PATCH = 8


def get_config() -> Experiment:
    augment = (RandomResizedCrop(SIDE), Flip(), Channels(3))
    middle = (Resize(SIDE), CenterCrop(SIDE), Channels(3))
    return Experiment(
        model=ViT(
            patch=PATCH,
            positions=Learned(max_length=(SIDE // PATCH) ** 2 + 1),
            head=Classes(None, FirstToken()),
            width=128,
            depth=4,
            heads=4,
            dropout=0.1,
        ),
        objective=Classification(),
        data=Images(name="txjax_digits", shape=(SIDE, SIDE, 3), mean=(0.5,), std=(0.25,), transforms=augment),
        evals={"test": Evaluation(data=Images(split="test", transforms=middle), every_steps=200)},
        optimizer=AdamW(peak_lr=1e-3, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
        num_steps=1000,
        batch_size=32,
        log_every_steps=50,
    )
