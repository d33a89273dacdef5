"""A small BERT that predicts masked bytes in the source code of Python's standard library.

    txjax train --config=configs/text/mlm_tiny.py --workdir=runs/mlm_tiny

Cost: about 6 minutes on two CPU cores.
Score: eval/valid/loss 2.865, nats a masked byte of held-out files (first 32 batches); 34.1% found; the training loss is
4.61 at step 25.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Learned
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    windows = dict(length=128, tokenizer=Bytes(specials=("[MASK]",)))
    return Experiment(
        model=Bert(vocab=257, width=128, depth=4, heads=4, positions=Learned(max_length=128)),
        objective=MaskedToken(mask_id=256, vocab=256),
        data=TextWindows(name="txjax_python_text", split="train", **windows),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **windows), every_steps=200, max_batches=32)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=200, best="eval/valid/loss"),
        num_steps=600,
        batch_size=32,
        log_every_steps=25,
    )
