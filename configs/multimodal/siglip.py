"""SigLIP of the published sizes, after Zhai et al. 2023: base/16-224, `:large/16-256`, `:so400m/14-384`.

    txjax train --config=configs/multimodal/siglip.py --workdir=runs/siglip --config.data.name=SET

The paper's WebLI is not public: SET is a set of yours with images and captions (docs/images.md). The tokenizer, of the
published size, is trained on the captions of COCO. Every text is padded to 64 tokens, since the text tower reads the
padding. The number of pairs that are seen is that of `clip.py`.

Cost: 1.8e21 FLOPs for base, 7.7e21 for large, 2.8e22 for so400m, or 1252, 5434 and 19497 hours of an H100 at 40% of its
989.5 TFLOP/s, without what rematerialisation computes again.
Score: not run here. The paper gives 83.1% of ImageNet without training on it, for so400m/14-384.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CaptionedImages, Stretch, Trained, Unigram
from txjax.eval import Evaluation, ImageTextRetrieval
from txjax.experiment import Experiment
from txjax.models.multimodal.two_towers.card import siglip
from txjax.nn import Stack
from txjax.objectives import SigmoidContrastive
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

VARIANTS = ("base/16-224", "large/16-256", "so400m/14-384")
PLANS = (("siglip-so400m/14-384", "so400m/14-384", "v5p:4x4x4", ("mesh.data=-1", "microbatches=16")),)
BATCH = 32_768


def get_config(size: str = "base/16-224") -> Experiment:
    model = siglip(size, towers={"dtype": "bfloat16", "stack": Stack(remat="dots" if "base" in size else "full")})
    side = model.vision.image_size[0]
    tokenizer = Trained(
        algorithm=Unigram(), size=32_000, name="coco_captions", split="train", features=("captions/text",)
    )
    held_out = CaptionedImages(split="val", captions="every")
    return Experiment(
        model=model,
        objective=SigmoidContrastive(),
        data=CaptionedImages(
            name="coco_captions",
            split="train",
            text="{captions/text}",
            captions="random",
            length=64,
            tokenizer=tokenizer,
            shape=(side, side, 3),
            mean=(0.5,),
            std=(0.5,),
            transforms=(Stretch(side),),
        ),
        evals={
            "valid": Evaluation(data=held_out, every_steps=10_000),
            "pairs": ImageTextRetrieval(data=held_out, every_steps=10_000),
        },
        optimizer=AdamW(
            peak_lr=1e-3,
            b2=0.95,
            weight_decay=1e-4,
            schedule=Cosine(warmup_steps=10_000, final=0.0),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=32 * 400_000_000 // BATCH,
        batch_size=BATCH,
        log_every_steps=100,
    )
