"""A ladder of decoders on questions of three skills: is a jump in accuracy one in likelihood?

txjax sweep --config=experiments/emergence/config.py --workdir=runs/emergence
txjax sweep --config=experiments/emergence/config.py:long --workdir=runs/emergence_long
"""

import string

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, Completions, Mixture
from txjax.eval import AnswerLikelihood
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine
from txjax.sweep import grid

VARIANTS = ("long",)
SKILLS = ("addition", "copying", "in_context_regression")
STEPS = {"": 2000, "long": 6000}
LENGTH = 24
SIZES = ((8, 1), (16, 2), (24, 2), (32, 3), (48, 3), (64, 4))  # width, depth
LONG = ((24, 2),)  # too small to learn any skill in 2,000 updates


def get_config(variant: str = "") -> Experiment:
    tokenizer = Characters(alphabet=string.digits + string.ascii_lowercase + "+=>: ", specials=("[END]",))

    def questions(split: str) -> dict[str, Completions]:
        texts = dict(split=split, length=LENGTH, tokenizer=tokenizer)
        return {skill: Completions(name=f"txjax_skills/{skill}", **texts) for skill in SKILLS}

    return Experiment(
        model=Decoder(vocab=tokenizer.vocab(), width=64, depth=4, heads=4, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=Mixture(parts=questions("train"), weights=dict.fromkeys(SKILLS, 1.0)),
        evals={
            skill: AnswerLikelihood(data=data, every_steps=500, batch_size=250)
            for skill, data in questions("test").items()
        },
        optimizer=AdamW(peak_lr=4e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=STEPS[variant], keep=1),
        trackers=(),
        num_steps=STEPS[variant],
        batch_size=64,
        log_every_steps=100,
    )


def sweep(variant: str = "") -> list[dict]:
    """A head for every 16 of the width, at least one, and rates in proportion to width^-0.5."""
    sizes = [
        {
            "model.width": width,
            "model.depth": depth,
            "model.heads": max(1, width // 16),
            "optimizer.peak_lr": round(4e-3 * (64 / width) ** 0.5, 5),
        }
        for width, depth in (LONG if variant == "long" else SIZES)
    ]
    return grid({"seed": range(3)}, sizes)
