"""A small Llama on Shakespeare's plays, in pieces of words: a BPE of 1,024 tokens. The README's main example.

    txjax train --config=configs/text/shakespeare.py --workdir=runs/shakespeare

Cost: about 2 minutes on two CPU cores.
Score: eval/valid/loss 3.25, nats a token of held-out plays: 1.42 a letter (`llama_tiny.py`, of letters: 1.45).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import llama
from txjax.objectives import NextToken
from txjax.optim import Cosine, Muon


def get_config() -> Experiment:
    pieces = Trained(algorithm=BPE(), size=1024, name="txjax_shakespeare", specials=())
    return Experiment(
        model=llama(vocab=1024, width=128, depth=4, heads=4),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", length=128, tokenizer=pieces),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation"), every_steps=100)},
        optimizer=Muon(peak_lr=0.01, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=100, best="eval/valid/loss"),
        num_steps=500,
        batch_size=16,
        log_every_steps=20,
    )
