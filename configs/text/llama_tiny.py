"""Llama in small, with what later models added: Shakespeare letter by letter.

    txjax train --config=configs/text/llama_tiny.py --workdir=runs/llama_tiny

Rotary positions, RMSNorm, SwiGLU; two heads of keys and values for four of queries; norms of queries and keys (Qwen3),
bounded logits (Gemma 2) and a z-loss (PaLM). The data are plays of Shakespeare.

Cost: 2,000 steps, 5 minutes on one of two busy CPU cores.
Score: eval/valid/loss 1.451, nats a letter of `validation` (one seed). Counts of three letters give 1.993.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import llama
from txjax.nn import Attention, GatedMLP, RMSNorm, Softcap, Untied
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config() -> Experiment:
    letters = dict(length=128, tokenizer=Characters(alphabet=ALPHABET))
    return Experiment(
        model=llama(
            vocab=len(ALPHABET),
            width=128,
            depth=4,
            heads=4,
            kv_heads=2,
            mixer=Attention(use_bias=False, qk_norm=RMSNorm()),
            mlp=GatedMLP(use_bias=False),
            head=Softcap(Untied(), cap=30.0),
        ),
        objective=NextToken(loss=CrossEntropy(z_loss=1e-4)),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.1)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=16,
        log_every_steps=50,
    )
