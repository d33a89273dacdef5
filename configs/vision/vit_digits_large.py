"""From one data set to another at higher resolution: ten scanned digits of each class, brought to 16x16 pixels.

    txjax train --config=configs/vision/vit_digits_large.py --workdir=runs/digits --config.init_from=runs/small

The other half is `vit_fashion_small.py`: its 7x7 learned positions are resized to 8x8, its head is dropped. Without
`init_from` the same model learns from scratch.

Cost: about 1 minute on two CPU cores.
Score: eval/test/accuracy 0.747 of held-out digits from scratch; 85.2% from step 334 of the other half (one seed each).
"""

from txjax.data import Images, PadCrop, Resize, Subset
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, Learned, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine
from txjax.transfer import Bicubic, From


def get_config() -> Experiment:
    held_out = Images(split="test", transforms=(Resize(16),))
    return Experiment(
        model=ViT(
            patch=2,
            head=Classes(None, MeanTokens()),
            width=64,
            depth=4,
            heads=4,
            class_token=None,
            positions=Learned(max_length=64),
        ),
        objective=Classification(),
        data=Images(
            name="txjax_digits",
            split="train",
            transforms=(Resize(16), PadCrop(2)),
            subset=Subset(per_class=10),
            shape=(16, 16, 1),
            mean=(0.3,),
            std=(0.35,),
        ),
        evals={"test": Evaluation(data=held_out, every_steps=100, batch_size=99)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        init_from=From(omit=("head",), resize=(Bicubic(prefix=0),)),
        num_steps=300,
        batch_size=50,
        log_every_steps=25,
    )
