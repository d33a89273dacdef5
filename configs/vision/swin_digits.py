"""A small Swin that reads scikit-learn's scanned digits, as `vit_digits.py` does: windows that shift, two stages.

    txjax train --config=configs/vision/swin_digits.py --workdir=runs/swin_digits

Cost: about 1 minute on two CPU cores.
Score: eval/test/accuracy 0.976 of the held-out digits.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.swin.swin import Swin, shifted_windows
from txjax.nn import Classes, Learned, MeanTokens, PatchEmbedding, PreNorm, Xavier
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    digits = dict(shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    return Experiment(
        # The first stage has 8 x 8 tokens in windows of 4 x 4, the second one a single window.
        model=Swin(
            stages=(Stage(width=32, depth=2, heads=2), Stage(width=64, depth=2, heads=4)),
            stem=PatchEmbedding(patch=1),
            mixer=shifted_windows(4),
            block=PreNorm(drop_path=0.1),
            positions=Learned(max_length=64),
            dropout=0.1,
            initial=Xavier(),
            head=Classes(10, MeanTokens()),
        ),
        objective=Classification(),
        data=Images(name="txjax_digits", split="train", **digits),
        evals={"test": Evaluation(data=Images(split="test", **digits), every_steps=200)},
        optimizer=AdamW(peak_lr=3e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
        num_steps=1200,
        batch_size=64,
        log_every_steps=100,
    )
