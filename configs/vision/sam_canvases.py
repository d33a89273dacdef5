"""A small SAM of canvases of digits: masks from clicks and boxes, over three rounds.

    txjax train --config=configs/vision/sam_canvases.py --workdir=runs/sam_canvases

The canvases are made once (docs/data.md). `--config.data.name=txjax_canvases/fashion_mnist` has clothes on them, if
that set is prepared.

Cost: 9 minutes on one CPU core.
Score: eval/test/iou_1 0.794 of held-out objects after one click, 0.815 after two, 0.824 after three (one seed). A disk
of the mean area around the click gives 0.354.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Detections
from txjax.eval import ClickedMasks
from txjax.experiment import Experiment
from txjax.models.vision.sam.sam import SAM, windows_then_all
from txjax.models.vision.vit.vit import ViT
from txjax.nn import MLP, Learned, PeriodicStack, PositionedCrossAttention, PreNormWithoutFinal
from txjax.objectives import PromptedMasks
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    canvases = dict(masks_feature="instances", mean=(0.2,), std=(0.25,))
    held_out = Detections(split="test", **canvases)
    return Experiment(
        # 16 x 16 patches of 4 x 4 pixels, in windows of 8 x 8 but for the last layer; a mask has a place a pixel.
        model=SAM(
            encoder=ViT(
                patch=4,
                width=64,
                depth=3,
                heads=4,
                class_token=None,
                positions=Learned(max_length=16**2),
                mixer=windows_then_all(3, window=8, side=16),
                block=PreNormWithoutFinal(),
                stack=PeriodicStack(),
            ),
            width=64,
            heads=4,
            cross=PositionedCrossAttention(head_size=8),
            mlp=MLP(hidden=128, activation="relu"),
            iou_hidden=64,
        ),
        objective=PromptedMasks(clicks=3, refinements=0),
        data=Detections(name="txjax_canvases", split="train", **canvases),
        evals={"test": ClickedMasks(data=held_out, clicks=3, every_steps=500)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=500, best="eval/test/iou_1", best_mode="max"),
        num_steps=1000,
        batch_size=16,
        log_every_steps=50,
    )
