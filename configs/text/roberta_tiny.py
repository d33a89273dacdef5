"""RoBERTa in small: masked letters of Shakespeare, other ones in every epoch, without pairs of sentences.

    txjax train --config=configs/text/roberta_tiny.py --workdir=runs/roberta_tiny

The data is TFDS's `tiny_shakespeare`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. A letter guessed from
its two neighbours alone costs 1.565 nats, by the frequencies of letters 3.326.

Cost: 2,000 steps of 64 windows of 32 letters.
Score: not measured yet; 15% of the letters are hidden.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Bert
from txjax.nn import Counted, LayerNorm
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config() -> Experiment:
    letters = dict(length=32, tokenizer=Characters(alphabet=ALPHABET, specials=("[MASK]",)), boundaries=False)
    return Experiment(
        model=Bert(
            vocab=len(ALPHABET) + 1,
            width=128,
            depth=4,
            heads=4,
            types=1,
            positions=Counted(max_length=34),
            norm=LayerNorm(eps=1e-5),
        ),
        objective=MaskedToken(mask_id=len(ALPHABET), vocab=len(ALPHABET)),
        data=TextWindows(name="tiny_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=200)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=64,
        log_every_steps=50,
    )
