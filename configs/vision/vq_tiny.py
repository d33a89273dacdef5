"""A small tokenizer of images: 8 x 8 digits become 4 x 4 tokens, pictures of clothes (`:fashion`) 7 x 7.

    txjax train --config=configs/vision/vq_tiny.py --workdir=runs/vq
    txjax train --config=configs/vision/vq_tiny.py:fashion --workdir=runs/vq_fashion

`maskgit_tiny.py` starts from it. The clothes are TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR
gives its folder.

Cost: about 1 minute of a CPU core; fashion: 8.
Score: eval/test/loss 0.144 of held-out digits (one seed): a mean squared error of 0.044 of normalised pixels. All 32
codes are in use, with a perplexity of 30.2. Fashion: 0.106, an error of 0.052, a perplexity of 26.6.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import CodebookUsage, Evaluation, Reconstructions
from txjax.experiment import Experiment
from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import GroupNorm
from txjax.objectives import VQReconstruction
from txjax.optim import AdamW, Cosine

VARIANTS = ("digits", "fashion")


def get_config(variant: str = "digits") -> Experiment:
    size: dict[str, Any] = dict(width=16, depth=1, code_size=8, channels=1, norm=GroupNorm(groups=4, eps=1e-6))
    if variant == "digits":
        name, every_steps = "txjax_digits", 200
        images = dict(shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
        model = VQTokenizer(codes=32, multipliers=(1, 2), **size)
    else:
        name, every_steps = "fashion_mnist", 300
        images = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
        model = VQTokenizer(codes=32, multipliers=(1, 2, 2), **size)
    test = Images(split="test", **images)
    return Experiment(
        model=model,
        objective=VQReconstruction(),
        data=Images(name=name, split="train", **images),
        evals={
            "test": Evaluation(data=test, every_steps=every_steps),
            "codes": CodebookUsage(data=test, every_steps=every_steps),
            "painted": Reconstructions(data=test, every_steps=every_steps),
        },
        optimizer=AdamW(peak_lr=3e-3, b2=0.99, weight_decay=0.0, schedule=Cosine(warmup_steps=50, final=0.0)),
        checkpoint=Checkpoints(every_steps=every_steps),
        num_steps=5 * every_steps,
        batch_size=64,
        log_every_steps=50,
    )
