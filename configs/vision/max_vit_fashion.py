"""A small MaxViT of `fashion_mnist`: convolutions to 7 x 7 tokens, and to 4 x 4; attention sees all of them.

    txjax train --config=configs/vision/max_vit_fashion.py --workdir=runs/max_vit_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Logistic regression on
the pixels of 10,000 images reaches 0.830.

Cost: about 6 minutes of a busy CPU core.
Score: eval/test/accuracy 0.866 of `test`.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.max_vit import MaxViTBlock
from txjax.models.vision.max_vit.max_vit import MaxViT, MaxViTStem
from txjax.nn import BatchNorm, Classes, NormedPool, Pooler, Xavier
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        model=MaxViT(
            stages=(Stage(width=32, depth=1, heads=2), Stage(width=64, depth=2, heads=4)),
            stem=MaxViTStem(channels=16),
            # Groups of 16 examples: statistics, and so the run, are the same in up to four microbatches.
            batch_norm=BatchNorm(momentum=0.9, eps=1e-3, group=16),
            block=MaxViTBlock(drop_path=0.1),
            initial=Xavier(),
            head=Classes(10, Pooler(pool=NormedPool())),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=500, batch_size=256)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=500, best="eval/test/accuracy", best_mode="max"),
        num_steps=2500,
        batch_size=64,
        log_every_steps=50,
    )
