"""Learning rate transfer over the width: a decoder, a BERT and a ViT, with and without muP.

txjax sweep --config=experiments/mup/config.py:vit --workdir=runs/mup/vit --executor=population
txjax scaling lr_transfer runs/mup/vit
"""

import dataclasses

from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, Images, NextTokenWindows, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Rotary, Untied
from txjax.objectives import Classification, MaskedToken, NextToken
from txjax.optim import AdamW, Linear
from txjax.parametrization import MuP, Parametrization, Standard
from txjax.sweep import Point, grid

VARIANTS = ("decoder", "bert", "vit", "decoder_standard", "bert_standard", "vit_standard")
LENGTH = 64
STEPS = {"decoder": 120, "bert": 300, "vit": 120}
SIZES = dict(width=32, depth=2, heads=4)


def get_config(variant: str = "decoder") -> Experiment:
    kind, _, standard = variant.partition("_")
    made: Parametrization = Standard() if standard else MuP(base_width=32, base_head_size=8)
    model, objective, data, split = KINDS[kind]()
    held_out = dataclasses.replace(data, name=None, split=split)
    steps = STEPS[kind]
    model.parametrization = made
    return Experiment(
        model=model,
        objective=objective,
        data=data,
        evals={"valid": Evaluation(data=held_out, every_steps=steps, batch_size=16, max_batches=16)},
        optimizer=AdamW(peak_lr=2**-6, schedule=Linear(warmup_steps=12)),
        checkpoint=Checkpoints(every_steps=steps, keep=1),
        num_steps=steps,
        batch_size=16,
        trackers=(),
    )


def sweep() -> list[Point]:
    return grid({"model.width": [32, 64, 128]}, {"optimizer.peak_lr": [2**-i for i in range(10, 3, -1)]})


def decoder():
    windows = NextTokenWindows(name="txjax_python_text", split="train", length=LENGTH)
    return Decoder(vocab=256, head=Untied(), **SIZES), NextToken(), windows, "validation"


def bert():
    tokenizer = Bytes(specials=("[MASK]",))
    windows = TextWindows(name="txjax_python_text", split="train", length=LENGTH, tokenizer=tokenizer)
    model = Bert(vocab=257, positions=Rotary(), **SIZES)
    return model, MaskedToken(mask_id=256, vocab=256), windows, "validation"


def vit():
    digits = Images(name="txjax_digits", split="train", shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    return ViT(patch=2, head=Classes(10, FirstToken()), **SIZES), Classification(), digits, "test"


KINDS = {"decoder": decoder, "bert": bert, "vit": vit}
