"""A small BERT learns masked pieces of words and matching sentences from the texts of three GLUE tasks.

    txjax train --config=configs/text/mlm_glue.py --workdir=runs/mlm_glue

`glue/cola`, `glue/mrpc` and `glue/stsb` must be prepared in TFDS_DATA_DIR (docs/data.md). `configs/text/glue.py`
starts from this run.

Three in ten pieces are hidden and the head is not tied, as in `configs/text/mlm_sentences.py`. The two sentences of a
pair are in one row, so the model learns to look for a piece in the other sentence; half of the pairs are two records'
sentences, and it learns to see which. `experiments/glue/` says what each of both is for.

Cost: 6,000 steps, 19 minutes on one of two busy CPU cores (150 ms a step where it is not busy).
Score: eval/valid/masked_token 4.119, nats a masked piece of `validation`, where half of the pairs don't match; 31.9%
are found, and 87.5% of the pairs are judged right (one seed).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import MatchedSentences, Mixture, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Learned, MaskedTokens, NextSentence, PreNorm, Untied
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name="glue/stsb", features=("sentence1", "sentence2"))

    pair = ("sentence1", "sentence2")
    features = {"cola": ("sentence",), "mrpc": pair, "stsb": pair}

    shared: dict[str, Any] = dict(length=64, tokenizer=tokenizer)

    def sentences(split: str, **named: str) -> dict[str, Any]:
        """By task, with the names, or without where they follow the training data's."""
        return {
            task: MatchedSentences(name=named.get(task), split=split, text=names, **shared)
            for task, names in features.items()
        }

    training = sentences("train", **{task: f"glue/{task}" for task in features})

    return Experiment(
        model=Bert(
            vocab=4000,
            width=128,
            depth=2,
            heads=4,
            head=MaskedTokens(logits=Untied(), next_sentence=NextSentence()),
            block=PreNorm(),
            positions=Learned(max_length=64),
        ),
        objective=MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=4000, rate=0.3),
        data=Mixture(parts=training, weights={"cola": 1.0, "mrpc": 2.0, "stsb": 2.0}),
        evals={"valid": Evaluation(data=Mixture(parts=sentences("validation")), every_steps=1000)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=1000, best="eval/valid/loss"),
        num_steps=6000,
        batch_size=64,
        log_every_steps=100,
    )
