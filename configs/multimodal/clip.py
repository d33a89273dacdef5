"""CLIP as published (Radford et al. 2021, 2.4 and 2.5): ViT-B/32, `:ViT-B/16`, `:ViT-L/14`, `:ViT-L/14@336`.

    txjax train --config=configs/multimodal/clip.py --workdir=runs/clip --config.data.name=SET
    txjax train --config=configs/multimodal/clip.py:ViT-L/14@336 --workdir=runs/clip_336 --config.data.name=SET \\
        --config.init_from='From("runs/clip_large", resize=(Bicubic(prefix=1),))'

The paper's 400 million pairs are not public: SET is a set of yours with images and captions (docs/images.md). The
tokenizer, of the published size, is trained on the captions of COCO. Images are cropped to at least nine tenths of
their area, as OpenCLIP does. L/14@336 trains L/14 for an epoch more, at a lower rate.

Cost: 5.6e20 FLOPs for B/32, 1.6e21 for B/16, 6.7e21 for L/14, 4.7e20 for the epoch of L/14@336, or 396, 1105, 4722 and
333 hours of an H100 at 40% of its 989.5 TFLOP/s, without what rematerialisation computes again.
Score: not run here. The paper gives 76.2% of ImageNet without training on it, for L/14@336.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, CaptionedImages, CenterCrop, RandomResizedCrop, Resize, Trained
from txjax.eval import Evaluation, ImageTextRetrieval
from txjax.experiment import Experiment
from txjax.models.multimodal.two_towers.card import CLIP_VOCAB, clip
from txjax.nn import Stack
from txjax.objectives import SoftmaxContrastive
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

VARIANTS = ("ViT-B/32", "ViT-B/16", "ViT-L/14", "ViT-L/14@336")
PLANS = (
    ("clip-L/14@336", "ViT-L/14@336", "v5p:4x4x4", ("mesh.data=-1", "microbatches=16")),
    ("clip-L/14@336", "ViT-L/14@336", "h100:4x8", ("mesh.data=-1", "microbatches=32")),
)
RATES = {"ViT-B/32": 5e-4, "ViT-B/16": 5e-4, "ViT-L/14": 4e-4, "ViT-L/14@336": 2e-5}
PAIRS = 400_000_000
BATCH = 32_768


def get_config(size: str = "ViT-B/32") -> Experiment:
    model = clip(size, towers={"dtype": "bfloat16", "stack": Stack(remat="full" if "L" in size else "dots")})
    side = model.vision.image_size[0]
    tokenizer = Trained(
        algorithm=BPE(), size=CLIP_VOCAB, name="coco_captions", split="train", features=("captions/text",)
    )
    held_out = CaptionedImages(split="val", captions="every", transforms=(Resize(side), CenterCrop(side)))
    epochs = 1 if size.endswith("@336") else 32
    return Experiment(
        model=model,
        objective=SoftmaxContrastive(),
        data=CaptionedImages(
            name="coco_captions",
            split="train",
            text="{captions/text}",
            captions="random",
            length=77,
            tokenizer=tokenizer,
            shape=(side, side, 3),
            mean=(0.48145466, 0.4578275, 0.40821073),
            std=(0.26862954, 0.26130258, 0.27577711),
            transforms=(RandomResizedCrop(side, area=(0.9, 1.0)),),
        ),
        evals={
            "valid": Evaluation(data=held_out, every_steps=10_000),
            "pairs": ImageTextRetrieval(data=held_out, every_steps=10_000),
        },
        optimizer=AdamW(
            peak_lr=RATES[size],
            b2=0.98,
            eps=1e-6,
            weight_decay=0.2,
            schedule=Cosine(warmup_steps=2000, final=0.0),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=epochs * PAIRS // BATCH,
        batch_size=BATCH,
        log_every_steps=100,
    )
