"""MaskGIT's tokenizer of ImageNet at 256 x 256 pixels (Chang et al. 2022): 16 x 16 tokens of 1,024 codes.

    txjax train --config=configs/vision/vq_imagenet.py --workdir=runs/vq

Batch, rates and updates as in the authors' code. Its perceptual and adversarial losses are not here, nor its
entropy of the codes (`VQReconstruction`), so images will be less sharp than the paper's. `maskgit_imagenet.py` starts
from here.

Cost: 2.4e20 FLOPs, or 170 hours of an H100 at 40% of its peak; see docs/images.md.
Score: not run here. The authors' weights, of all losses, reconstruct with an FID of 2.28 (README of their code).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import imagenet
from txjax.eval import CodebookUsage, Evaluation, Reconstructions
from txjax.experiment import Experiment
from txjax.models.vision.vq_tokenizer.card import vq_tokenizer
from txjax.objectives import VQReconstruction
from txjax.optim import AdamW, Constant


def get_config() -> Experiment:
    shape = (256, 256, 3)
    validation = imagenet("validation", Resize(256), CenterCrop(256), name=None, shape=shape)
    return Experiment(
        model=vq_tokenizer(dtype="bfloat16"),
        objective=VQReconstruction(),
        data=imagenet("train", RandomResizedCrop(256, area=(0.8, 1.0)), Flip(), shape=shape),
        evals={
            "valid": Evaluation(data=validation, every_steps=10_000),
            "codes": CodebookUsage(data=validation, every_steps=10_000, max_batches=20),
            "painted": Reconstructions(data=validation, every_steps=10_000),
        },
        optimizer=AdamW(peak_lr=1e-4, b1=0.0, b2=0.99, weight_decay=0.0, schedule=Constant(warmup_steps=5000)),
        checkpoint=Checkpoints(every_steps=10_000),
        num_steps=1_000_000,
        batch_size=256,
        log_every_steps=100,
    )
