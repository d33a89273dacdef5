"""The small GPT of Python's standard library adapted to Shakespeare: its own parameters are frozen, LoRA's are trained.

    txjax train --config=configs/text/gpt_adapters.py --workdir=runs/gpt_lora --config.init_from=runs/gpt_tiny

The variant `bottleneck` adapts with bottleneck layers. `gpt_continued.py` trains all parameters on the same data.
The data are plays of Shakespeare.

Cost: less than 1 minute on two CPU cores.
Score: eval/valid/loss 4.892 without `init_from`, where a random model is adapted, nats a byte of held-out plays; 2.248
from `gpt_tiny`, 2.456 with `bottleneck` (200 steps, one seed).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Perplexity
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.nn.adapters import Bottleneck, LoRA
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine, train_adapter

VARIANTS = ("bottleneck",)


def get_config(variant: str = "") -> Experiment:
    adapter = Bottleneck() if variant == "bottleneck" else LoRA(paths=".*(query|key|value|out|up|down)")
    return Experiment(
        model=Decoder(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), initial=GPT2(), adapter=adapter),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", length=128),
        evals={"valid": Perplexity(data=NextTokenWindows(split="validation", length=128), every_steps=100)},
        optimizer=AdamW(peak_lr=1e-2, schedule=Cosine(warmup_steps=20), groups=train_adapter()),
        checkpoint=Checkpoints(every_steps=100, best="eval/valid/loss"),
        num_steps=200,
        batch_size=8,
        log_every_steps=10,
    )
