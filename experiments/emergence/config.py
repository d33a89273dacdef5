"""A ladder of decoders on questions of three skills: is a jump in accuracy one in likelihood?

txjax sweep --config=experiments/emergence/config.py --workdir=runs/emergence --executor=population
"""

import string

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, Completions, Mixture
from txjax.eval import AnswerLikelihood
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine
from txjax.sweep import grid, zip

SKILLS = ("addition", "copying", "in_context_regression")
STEPS, LENGTH = 2000, 32


def get_config() -> Experiment:
    tokenizer = Characters(alphabet=string.digits + string.ascii_lowercase + "+=>: ", specials=("[END]",))

    def questions(split: str) -> dict[str, Completions]:
        return {
            skill: Completions(name=f"txjax_skills/{skill}", split=split, length=LENGTH, tokenizer=tokenizer)
            for skill in SKILLS
        }

    return Experiment(
        model=Decoder(vocab=tokenizer.vocab(), width=32, depth=2, heads=4, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=Mixture(parts=questions("train")),
        evals={
            skill: AnswerLikelihood(data=data, every_steps=500, batch_size=250)
            for skill, data in questions("test").items()
        },
        optimizer=AdamW(peak_lr=4e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=STEPS, keep=1),
        trackers=(),
        num_steps=STEPS,
        batch_size=64,
        log_every_steps=100,
    )


def sweep() -> list[dict]:
    sizes = zip({"model.width": [8, 16, 24, 32, 48, 64], "model.depth": [1, 2, 2, 3, 3, 4]})
    return grid(sizes, {"seed": range(3)})
