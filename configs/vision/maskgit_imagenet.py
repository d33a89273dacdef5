"""MaskGIT on ImageNet, as published (Chang et al. 2022, 4.1): 256 x 256 pixels, or `:512`, 300 epochs.

    txjax train --config=configs/vision/vq_imagenet.py --workdir=runs/vq
    txjax train --config=configs/vision/maskgit_imagenet.py --workdir=runs/maskgit --config.init_from.run=runs/vq

Rates as in the authors' code. A token has 16 x 16 pixels, so 512 pixels are 1,024 tokens.

Cost: 1.6e20 FLOPs (512: 6.9e20), or 110 (485) hours of an H100 at 40% of its peak; see docs/images.md. At 256 pixels
a third of it is the tokenizer, which makes the tokens of every batch.
Score: not run here. The authors' weights have an FID of 6.06, and of 7.32 at 512 pixels (README of their code).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.decoding import ParallelDecoding
from txjax.eval import ClassSamples, Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.mask_git.card import MASK_GIT, mask_git
from txjax.models.vision.vq_tokenizer.card import vq_tokenizer
from txjax.nn import Attention
from txjax.objectives import CrossEntropy, MaskedVisualTokens
from txjax.optim import AdamW, Constant, train_all_but
from txjax.transfer import From

VARIANTS = tuple(MASK_GIT)
# Dropout of the attention weights is left out, as for BERT.
PLANS = (
    ("maskgit-512", "512", "v5e:8x8", ("mesh.data=-1", "model.mixer.dropout=0")),
    ("maskgit-512", "512", "h100:8", ("mesh.data=-1", "model.mixer.dropout=0")),
)
BATCH = 256
SHOWN = (1, 22, 88, 130, 207, 279, 417, 933)  # classes of the pictures


def get_config(size: str = "256") -> Experiment:
    side = int(size)
    validation = imagenet("validation", Resize(side), CenterCrop(side), name=None, shape=(side, side, 3))
    return Experiment(
        model=mask_git(size, dropout=0.1, mixer=Attention(dropout=0.1), dtype="bfloat16"),
        objective=MaskedVisualTokens(
            tokenizer=vq_tokenizer(dtype="bfloat16"),
            classes=1000,
            loss=CrossEntropy(label_smoothing=0.1),
        ),
        data=imagenet("train", RandomResizedCrop(side, area=(0.8, 1.0)), Flip(), shape=(side, side, 3)),
        evals={
            "valid": Evaluation(data=validation, every_steps=10_000),
            "generated": ClassSamples(
                data=validation,
                every_steps=10_000,
                classes=SHOWN,
                decoding=ParallelDecoding(steps={"256": 8, "512": 12}[size]),
                classifier=None,
            ),
        },
        optimizer=AdamW(
            peak_lr=1e-4,
            b2=0.96,
            weight_decay=0.045,
            clip=None,
            groups=train_all_but("tokenizer/.*"),
            schedule=Constant(warmup_steps=5000),
        ),
        init_from=From(here="tokenizer"),
        checkpoint=Checkpoints(every_steps=10_000, frozen="origin"),
        num_steps=round(300 * TRAIN_IMAGES / BATCH),
        batch_size=BATCH,
        log_every_steps=100,
    )
