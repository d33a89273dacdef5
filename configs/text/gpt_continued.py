"""Continued pretraining: the small GPT of Python's standard library continues with Shakespeare.

    txjax train --config=configs/text/gpt_continued.py --workdir=runs/gpt_continued --config.init_from=runs/gpt_tiny

The data are plays of Shakespeare. Without `init_from` the same model learns
the plays from scratch.

Cost: half a minute to 3 minutes on two CPU cores, depending on other load.
Score: eval/valid/loss 2.338 from scratch, nats a byte of held-out plays; 2.142 from `gpt_tiny` (200 steps, one seed).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Perplexity
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    return Experiment(
        model=Decoder(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", length=128),
        evals={"valid": Perplexity(data=NextTokenWindows(split="validation", length=128), every_steps=100)},
        optimizer=AdamW(peak_lr=1e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=100, best="eval/valid/loss"),
        num_steps=200,
        batch_size=8,
        log_every_steps=10,
    )
