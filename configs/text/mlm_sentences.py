"""A small BERT that predicts masked pieces of words in customers' questions to a bank.

    txjax train --config=configs/text/mlm_sentences.py --workdir=runs/mlm_sentences

`banking77` must be prepared in TFDS_DATA_DIR (docs/data.md). `configs/text/bert_sentences.py` classifies the same
sentences with the same tokenizer and encoder, so its `init_from` can be this run.

Three in ten pieces are hidden, not BERT's 15% (Wettig et al. 2023 found 40% better in large models). The head is not
tied: `experiments/transfer/` says why.

Cost: 4,000 steps, 7 to 10 minutes on one of two busy CPU cores.
Score: eval/test/loss 2.00 ± 0.02, nats a masked piece of the test sentences; 57.9% found (three seeds).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Sentences, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Learned, MaskedTokens, PreNorm, Untied
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")

    sentences = dict(text=("text",), length=64, tokenizer=tokenizer, buckets=(16, 32))
    return Experiment(
        model=Bert(
            vocab=2000,
            width=128,
            depth=2,
            heads=4,
            head=MaskedTokens(logits=Untied()),
            block=PreNorm(),
            positions=Learned(max_length=64),
        ),
        objective=MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=2000, rate=0.3),
        # Most sentences fit 16 positions, if batches aren't mixed.
        data=Sentences(name="banking77", split="train", sort_batches=20, **sentences),
        evals={"test": Evaluation(data=Sentences(split="test", **sentences), every_steps=1000)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=1000, best="eval/test/loss"),
        num_steps=4000,
        batch_size=64,
        log_every_steps=100,
    )
