"""A small GPT on the source code of Python's standard library, byte by byte. Most tests train it.

    txjax train --config=configs/text/gpt_tiny.py --workdir=runs/gpt_tiny

Cost: about 1 minute on two CPU cores.
Score: eval/valid/loss 1.92, nats a byte of held-out files (first 32 batches); the training loss is 4.28 at step 10.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    return Experiment(
        model=Decoder(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=128),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation"), every_steps=50, max_batches=32)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=50, best="eval/valid/loss"),
        num_steps=300,
        batch_size=8,
        log_every_steps=10,
    )
