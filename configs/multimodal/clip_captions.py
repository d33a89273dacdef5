"""A small CLIP of pictures of 64x64 pixels and their captions: drawings and photos of things, or emoji.

    txjax train --config=configs/multimodal/clip_captions.py --workdir=runs/clip_stamps
    txjax train --config=configs/multimodal/clip_captions.py:stamps-sigmoid --workdir=runs/siglip_stamps
    txjax train --config=configs/multimodal/clip_captions.py:twemoji --workdir=runs/clip_twemoji

The data are the prepared sets `stamps` (505 pairs to train on, 71 and 98 of other captions held out) and
`twemoji_captions` (1,150 emoji with one to three captions, 127 held out), in TFDS_DATA_DIR or
`--config.data.data_dir`. The tokenizer is trained on the captions. Each image searches all captions and each caption
all images; `kinds` are the folders that the images of `stamps` are in, and the categories of emoji, by their names
alone.

By chance R@10 is 0.10 for the 98 stamps, whose captions of the five nearest training images by pixels have 0.265, and
0.079 for the 127 emoji, of which the commonest category has 20%.

Cost: 13 minutes on a CPU core that had other work, too.
Score: eval/pairs/image_to_text_r10 0.36 or more (0.378 here; text_to_image_r10 0.347, and a linear probe 53%). Emoji:
0.402 and 0.425, and the categories by their names alone 29.9% (one seed).
"""

from typing import Any

from txjax.data import ByText, CaptionedImages, Flip, Images, PadCrop, Trained, WordPiece
from txjax.eval import ImageTextRetrieval, LinearProbe, ZeroShot
from txjax.experiment import Experiment
from txjax.models.multimodal.two_towers import TwoTowers
from txjax.models.text.bert import Bert
from txjax.models.vision.vit import ViT
from txjax.nn import Learned, MeanTokens, Projected
from txjax.objectives import SigmoidContrastive, SoftmaxContrastive
from txjax.optim import AdamW, Cosine

VARIANTS = ("stamps", "stamps-sigmoid", "twemoji")
LENGTH = 24
CATEGORIES = ("Symbols", "Flags", "People", "Objects", "Nature", "Places", "Foods", "Activity")
# The set, its text and its feature of texts, the split that is held out, and the kinds of its images.
SETS: dict[str, dict[str, Any]] = {
    "stamps": dict(
        name="stamps", steps=600, text="{caption}", feature="caption", split="test", kinds=dict(label="kind")
    ),
    "twemoji": dict(
        name="twemoji_captions",
        steps=1500,
        text="{captions/text}",
        feature="captions/text",
        split="validation",
        kinds=dict(label=ByText("category", CATEGORIES)),
    ),
}


def get_config(variant: str = "stamps") -> Experiment:
    pictures, _, sigmoid = variant.partition("-")
    chosen = SETS[pictures]
    name, steps = chosen["name"], chosen["steps"]
    start: dict[str, Any] = {"scale": 10.0, "largest_scale": None, "bias": -10.0} if sigmoid else {}
    sizes = {"width": 96, "heads": 4, "dropout": 0.1}
    tokenizer = Trained(algorithm=WordPiece(), size=1000, name=name, split="train", features=(chosen["feature"],))
    kinds = Images(split=chosen["split"], **chosen["kinds"])
    pairs = CaptionedImages(split=chosen["split"], captions="first")
    return Experiment(
        model=TwoTowers(
            vision=ViT(
                patch=8,
                depth=3,
                class_token=None,
                positions=Learned(max_length=64),
                head=Projected(64, MeanTokens()),
                **sizes,
            ),
            text=Bert(
                vocab=1000,
                depth=2,
                positions=Learned(max_length=LENGTH),
                head=Projected(64, MeanTokens()),
                **sizes,
            ),
            **start,
        ),
        objective=SigmoidContrastive() if sigmoid else SoftmaxContrastive(),
        data=CaptionedImages(
            name=name,
            split="train",
            text=chosen["text"],
            captions="random",
            length=LENGTH,
            tokenizer=tokenizer,
            shape=(64, 64, 3),
            transforms=(PadCrop(8), Flip()),
        ),
        evals={
            "pairs": ImageTextRetrieval(data=pairs, every_steps=steps // 3),
            "kinds": ZeroShot(data=kinds, prompts=("{}", "A picture of {}."), every_steps=steps // 3),
        }
        | ({"probe": LinearProbe(data=kinds, every_steps=steps)} if pictures == "stamps" else {}),
        optimizer=AdamW(peak_lr=5e-4, b2=0.98, weight_decay=0.2, schedule=Cosine(warmup_steps=100, final=0.0)),
        num_steps=steps,
        batch_size=64,
        log_every_steps=50,
    )
