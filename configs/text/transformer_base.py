"""The Transformer (Vaswani et al. 2017), base and big, on WMT 2014 English to German by the recipe of section 5.

    txjax train --config=configs/text/transformer_base.py --workdir=runs/transformer
    txjax train --config=configs/text/transformer_base.py:big --workdir=runs/transformer_big

One byte-level BPE of 37,000 pieces serves both languages. A batch of 896 pairs has about 25,000 tokens of each. The
paper's scores are those of the average of the last five (base) or twenty (big) checkpoints, which are kept.

Cost: 1.1e18 FLOPs for base at 32 positions a sentence, 0.8 hours of one H100 at 40% of its 989.5 TFLOP/s; big 1.1e19,
7.8 hours.
Score: not run here. The paper gives 27.3 BLEU of newstest2014 for base, 28.4 for big (table 2).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Pairs, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder.card import transformer
from txjax.nn import Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

# updates, updates between checkpoints (ten minutes of the authors' machine), checkpoints in the average
RECIPES = {"base": (100_000, 1500, 5), "big": (300_000, 600, 20)}
VARIANTS = ("base", "big")
PLANS = (
    ("transformer-base", "", "v5e:2x4", ()),
    ("transformer-big", "big", "v5e:2x4", ()),
)
WARMUP = 4000


def get_config(size: str = "base") -> Experiment:
    specials = ("[PAD]", "[START]", "[END]")
    name, languages = "wmt14_translate/de-en", ("en", "de")
    tokenizer = Trained(algorithm=BPE(), size=37000, name=name, features=languages, specials=specials)
    texts = dict(source_text="{en}", target_text="{de}", source_length=128, length=128, tokenizer=tokenizer)
    model = transformer(size, dtype="bfloat16", stack=Stack(remat="none" if size == "base" else "dots"))
    steps, every, kept = RECIPES[size]
    return Experiment(
        model=model,
        objective=NextToken(loss=CrossEntropy(label_smoothing=0.1, chunk=32)),
        data=Pairs(name=name, split="train", **texts, too_long="drop", buckets=((32, 32), (64, 64)), sort_batches=64),
        evals={"valid": Evaluation(data=Pairs(split="validation", **texts), every_steps=2000)},
        optimizer=AdamW(
            peak_lr=(model.width * WARMUP) ** -0.5,
            b2=0.98,
            eps=1e-9,
            weight_decay=0.0,
            clip=None,
            schedule=InverseSquareRoot(warmup_steps=WARMUP),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=every, keep=kept),
        num_steps=steps,
        batch_size=896,
        log_every_steps=100,
    )
