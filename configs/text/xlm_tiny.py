"""XLM, small: masked words of English and German, with and without translations in one row, and a tagger of both.

    txjax train --config=configs/text/xlm_tiny.py --workdir=runs/xlm
    txjax train --config=configs/text/xlm_tiny.py:tagger --workdir=runs/tagger --config.init_from=runs/xlm

Variants: tlm (the default) has masked words of single sentences and of translations (Lample and Conneau 2019), mlm
single sentences only, as many of them and as many updates; tagger learns the parts of speech of English words and is
tested on German ones, without a German label. `multi30k/en_de`, `ud_pos/en` and `ud_pos/de` must be prepared in
TFDS_DATA_DIR (docs/data.md). `experiments/cross_lingual/` compares them.

Cost: 1,500 steps of tlm, 6 minutes on one of two busy CPU cores, and 1 for the tagger.
Score: tlm: eval/pairs/loss 3.313, nats a masked piece with the translation in the row; 41.8% are found, without it
39.5% of the English and 35.9% of the German ones. Of 1,000 English sentences 14.7% find their German
translation (0.1% by chance). From it the tagger has 85.8% of the English words right and 43.9% of the German
ones, where a table of the most frequent English tags has 36.0% (one seed).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import (
    Bitext,
    Dataset,
    InLanguage,
    Mixture,
    Sentences,
    Tasks,
    Temperature,
    TokenLabels,
    Trained,
    WordPiece,
)
from txjax.eval import Evaluation, Evaluator, Retrieval
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.nn import Learned, PlainMaskedTokens, PreNorm, TokenClasses, Untied
from txjax.objectives import MaskedToken, MultiTask, TokenClassification
from txjax.optim import AdamW, Linear
from txjax.transfer import From

VARIANTS = ("tlm", "mlm", "tagger")
LANGUAGES = ("en", "de")
NAME = "multi30k/en_de"


def get_config(variant: str = "tlm") -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name=NAME, features=LANGUAGES)
    sizes: dict[str, Any] = dict(vocab=4000, width=128, depth=3, heads=4, types=None, languages=len(LANGUAGES))
    model = Bert(**sizes, block=PreNorm(), positions=Learned(max_length=64), head=PlainMaskedTokens(logits=Untied()))
    if variant == "tagger":
        return tagger(model, tokenizer)

    def sentences(language: str, split: str, name: str | None = None) -> Dataset:
        text = Sentences(name=name, split=split, text=(language,), length=32, tokenizer=tokenizer)
        return InLanguage(text, language, LANGUAGES)

    def pairs(split: str, name: str | None = None) -> Bitext:
        return Bitext(
            name=name,
            split=split,
            text=LANGUAGES,
            spoken=LANGUAGES,
            languages=LANGUAGES,
            length=56,
            tokenizer=tokenizer,
        )

    def masked() -> MaskedToken:
        return MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=4000, rate=0.3)

    alone = Mixture(parts={each: sentences(each, "train", NAME) for each in LANGUAGES}, weights=Temperature(alpha=0.7))
    with_pairs = variant != "mlm"
    parts: dict[str, Dataset] = {"mlm": alone} | ({"tlm": pairs("train", NAME)} if with_pairs else {})
    evals: dict[str, Evaluator] = {
        each: Evaluation(data=sentences(each, "validation"), every_steps=500, task="mlm") for each in LANGUAGES
    }
    evals["pairs"] = Evaluation(data=pairs("validation"), every_steps=500, task="mlm")
    evals["retrieval"] = Retrieval(
        data=sentences("en", "test"), translations=sentences("de", "test"), every_steps=500, task="mlm"
    )
    return Experiment(
        model=model,
        objective=MultiTask(tasks={each: masked() for each in parts}),
        data=Tasks(parts=parts, rows={"mlm": 2, "tlm": 1} if with_pairs else {"mlm": 4}),
        evals=evals,
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=200)),
        checkpoint=Checkpoints(every_steps=500),
        num_steps=1500,
        batch_size=32,
        log_every_steps=50,
    )


def tagger(model: Bert, tokenizer: Trained) -> Experiment:
    """Learns from English words alone; both languages are tested."""

    def words(language: str, split: str) -> Dataset:
        text = TokenLabels(
            name=f"ud_pos/{language}", split=split, classes=17, length=64, tokenizer=tokenizer, buckets=(16, 32)
        )
        return InLanguage(text, language, LANGUAGES)

    return Experiment(
        model=model.clone(head=TokenClasses(17), dropout=0.1),
        objective=TokenClassification(),
        data=words("en", "train"),
        evals={each: Evaluation(data=words(each, "test"), every_steps=200) for each in LANGUAGES},
        optimizer=AdamW(peak_lr=1e-3, weight_decay=0.01, schedule=Linear(warmup_steps=50)),
        checkpoint=Checkpoints(every_steps=200),
        num_steps=400,
        batch_size=32,
        log_every_steps=50,
        init_from=From(omit=("head",)),
    )
