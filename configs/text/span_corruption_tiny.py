"""A small encoder-decoder that restores spans cut out of the source code of Python's standard library.

    txjax train --config=configs/text/span_corruption_tiny.py --workdir=runs/span_corruption_tiny

Cost: about 30 seconds on two CPU cores.
Score: eval/valid/loss 2.481, nats a target byte of held-out files (first 32 batches); 39.7% right.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Rotary
from txjax.objectives import SpanCorruption
from txjax.optim import AdamW, Cosine

SENTINELS = 20


def get_config() -> Experiment:
    tokenizer = Bytes(specials=("[START]", "[END]", *(f"[SPAN_{i}]" for i in reversed(range(SENTINELS)))))
    windows = dict(length=128, boundaries=False, tokenizer=tokenizer)
    names = dict(start_id="[START]", end_id="[END]", sentinel_id="[SPAN_0]")
    ids = {field: tokenizer.special(name) for field, name in names.items()}
    return Experiment(
        model=EncoderDecoder(vocab=tokenizer.vocab(), width=96, depth=2, heads=3, positions=Rotary()),
        objective=SpanCorruption(**ids),
        data=TextWindows(name="txjax_python_text", split="train", **windows),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **windows), every_steps=100, max_batches=32)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=100, best="eval/valid/loss"),
        num_steps=400,
        batch_size=16,
        log_every_steps=10,
    )
