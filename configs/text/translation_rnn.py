"""A recurrent encoder-decoder with attention (Bahdanau et al. 2015) that translates captions from English to German.

    txjax train --config=configs/text/translation_rnn.py --workdir=runs/translation_rnn

The baseline of `translation.py`, on its data: `multi30k/en_de`, which must be prepared in TFDS_DATA_DIR (docs/data.md),
with one vocabulary of 4,000 pieces for both languages. BLEU needs the extra `text` (sacrebleu).

Variants: `--config=configs/text/translation_rnn.py:luong`, as in Luong et al. 2015; `:rnnsearch` has the sizes of
Bahdanau et al. 2015 and their batch:

    txjax plan --config=configs/text/translation_rnn.py:rnnsearch --topology=v5e:2x4 --config.data.buckets='()'

Cost: about 8 minutes on two CPU cores, with other work beside it.
Score: bahdanau: eval/test/bleu 33.17 ± 1.4 (95% interval of the bootstrap).
A translation word by word has 8.3, the translation of the nearest training sentence 9.6.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Pairs, Trained
from txjax.decoding import Beam
from txjax.eval import Evaluation, GeneratedTexts
from txjax.experiment import Experiment
from txjax.models import Model
from txjax.models.text.recurrent import RecurrentEncoderDecoder, luong
from txjax.models.text.recurrent.card import rnnsearch
from txjax.objectives import NextToken
from txjax.objectives.losses import CrossEntropy
from txjax.optim import AdamW, Cosine

VARIANTS = ("bahdanau", "luong", "rnnsearch")
PLANS = (("rnnsearch", "rnnsearch", "v5e:2x4", ("data.buckets=()",)),)


def get_config(style: str = "bahdanau") -> Experiment:
    name, specials = "multi30k/en_de", ("[PAD]", "[START]", "[END]")
    tokenizer = Trained(algorithm=BPE(), size=4000, name=name, features=("en", "de"), specials=specials)
    texts = dict(source_text="{en}", target_text="{de}", source_length=48, length=48, tokenizer=tokenizer)
    sizes: dict[str, Any] = dict(vocab=4000, width=256, encoder_width=128, use_bias=True, dropout=0.2)
    models: dict[str, Model] = {
        "bahdanau": RecurrentEncoderDecoder(**sizes),
        "luong": luong(**sizes),
        "rnnsearch": rnnsearch(),
    }
    beam, num_steps = Beam(size=4, length_penalty=0.6), 2000
    return Experiment(
        model=models[style or "bahdanau"],
        objective=NextToken(loss=CrossEntropy(label_smoothing=0.1)),
        data=Pairs(name, "train", **texts, buckets=((16, 16), (24, 24), (32, 32)), sort_batches=16),
        evals={
            "valid": Evaluation(Pairs(split="validation", **texts), every_steps=250),
            "test": GeneratedTexts(Pairs(split="test", **texts), search=beam, every_steps=num_steps),
        },
        optimizer=AdamW(peak_lr=3e-3, b2=0.98, weight_decay=0.0, clip=1.0, schedule=Cosine(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=500, keep=2),
        num_steps=num_steps,
        batch_size=80 if style == "rnnsearch" else 64,
        log_every_steps=50,
    )
