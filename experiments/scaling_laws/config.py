"""The runs of the study: a decoder on bytes of Python's standard library, and the same study in full size on C4.

    txjax sweep --config=experiments/scaling_laws/config.py --workdir=runs/scaling_laws --jobs=2

Sizes, steps and rates of each variant are the points of a ladder beside this file, made by the commands of README.md.
"""

import json
from pathlib import Path

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary, Stack, Untied
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, WarmupStableDecay
from txjax.overrides import set_field
from txjax.sharding import Mesh
from txjax.sweep.names import NAME

VARIANTS = ("large", "full")


def get_config(variant: str = "") -> Experiment:
    experiment = full() if variant == "full" else small()
    if variant == "large":  # the predicted run
        (point,) = sweep("large")
        for path, value in point.items():
            if path != NAME:
                set_field(experiment, path, value)
    return experiment


def small() -> Experiment:
    """Three layers, windows of 128 bytes, minutes on a laptop."""
    held_out = NextTokenWindows(split="validation", length=128)
    return Experiment(
        model=Decoder(vocab=256, width=64, depth=3, heads=8, positions=Rotary(), head=Untied(), initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=128),
        evals={"valid": Evaluation(data=held_out, every_steps=1000, max_batches=128, batch_size=16)},
        optimizer=AdamW(peak_lr=6e-3, b2=0.98, weight_decay=0.1, schedule=WarmupStableDecay()),
        checkpoint=Checkpoints(every_steps=10_000, keep=1),
        trackers=(),
        num_steps=1000,
        batch_size=8,
        log_every_steps=100,
    )


def full() -> Experiment:
    """GPT-2's shapes in bfloat16 on C4, half a million tokens an update, for a pod or a cluster."""

    tokenizer = Trained(BPE(), size=32_768, name="c4/en", split="train[:1000000]", specials=("<|endoftext|>",))
    text = dict(length=1024, tokenizer=tokenizer, boundaries=False)

    return Experiment(
        model=Decoder(
            vocab=32_768,
            width=768,
            depth=12,
            heads=12,
            positions=Rotary(),
            head=Untied(),
            initial=GPT2(),
            stack=Stack(remat="dots"),
            dtype="bfloat16",
        ),
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(peak_lr=6e-4, b2=0.95, weight_decay=0.1, schedule=WarmupStableDecay()),
        mesh=Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=1000, keep=1),
        num_steps=5000,
        batch_size=512,
    )


def sweep(variant: str = "") -> list[dict]:
    ladder = Path(__file__).with_name(f"{variant or 'ladder'}.json")
    return json.loads(ladder.read_text(encoding="utf-8"))["points"]
