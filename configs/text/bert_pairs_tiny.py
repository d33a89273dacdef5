"""BERT's whole objective, small: masked bytes, and whether one stretch of code follows another.

    txjax train --config=configs/text/bert_pairs_tiny.py --workdir=runs/bert_pairs_tiny

Cost: about 2 minutes on two CPU cores.
Score: eval/valid/masked_token 2.906, nats a masked byte of held-out files (first 32 batches); 71.5% of the pairs right.
"""

from txjax.data import Bytes, SentencePairs
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Learned, MaskedTokens, NextSentence
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    pairs = dict(length=128, tokenizer=Bytes(specials=("[CLS]", "[SEP]", "[MASK]")))
    return Experiment(
        model=Bert(
            vocab=259,
            width=128,
            depth=2,
            heads=4,
            positions=Learned(max_length=128),
            head=MaskedTokens(next_sentence=NextSentence()),
        ),
        objective=MaskedToken(mask_id=258, vocab=256),
        data=SentencePairs(name="txjax_python_text", split="train", **pairs),
        evals={"valid": Evaluation(data=SentencePairs(split="validation", **pairs), every_steps=100, max_batches=32)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        num_steps=400,
        batch_size=32,
        log_every_steps=25,
    )
