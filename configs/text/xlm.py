"""XLM (Lample and Conneau 2019): masked words of fifteen languages, and of translations into English, in one model.

    txjax train --config=configs/text/xlm.py --workdir=runs/xlm

Streams of 256 tokens; languages are drawn in proportion to size^0.7, and as many rows of translations are trained on
(3.4 and 5.1). Where the paper has MultiUN, OpenSubtitles and others for fourteen languages, this has the five of
them that TFDS's `para_crawl` has: bg, de, el, es, fr. The paper's batches have one language each, these have all. The
optimizer is that of the authors' command for these languages; the number of updates is a choice of ours. The
vocabulary is trained on English alone here, all that `Trained` can read: for a run that counts, train one on all the
languages (shares of size^0.5) and give it as a `TokenizerFolder`.

Cost: 3.2e20 FLOPs (`flops_per_step` of manifest.json, times num_steps), 228 hours of one H100 at 40% of its 989.5
TFLOP/s.
Score: not run here. The paper has an average accuracy of 75.1 on XNLI's fifteen languages, zero-shot (table 1).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Bitext, Dataset, InLanguage, Mixture, Tasks, Temperature, TextWindows, Trained
from txjax.eval import Evaluation, Evaluator
from txjax.experiment import Experiment
from txjax.models.text.bert.card import xlm
from txjax.nn import Attention, Stack
from txjax.objectives import CrossEntropy, MaskedToken, MultiTask
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
TRANSLATED = ("bg", "de", "el", "es", "fr")
LENGTH = 256

# Dropout of the attention weights is left out, as for BERT.
PLANS = (("xlm", "", "v5p:4x4x4", ("model.mixer.dropout=0",)),)


def get_config() -> Experiment:
    wikipedia = "wikipedia/20230601.en"
    tokenizer = Trained(algorithm=BPE(), size=95000, name=wikipedia, split="train[:1000000]")

    def masked() -> MaskedToken:
        return MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=95000, loss=CrossEntropy(chunk=64))

    def text(language: str, split: str) -> Dataset:
        name = f"wikipedia/20230601.{language}"
        windows = TextWindows(name=name, split=split, length=LENGTH, tokenizer=tokenizer, boundaries=False)
        return InLanguage(windows, language, LANGUAGES)

    def pairs(language: str) -> Bitext:
        both = ("en", language)
        fields: dict[str, Any] = dict(text=both, spoken=both, languages=LANGUAGES)
        return Bitext(name=f"para_crawl/en{language}", split="train", length=LENGTH, tokenizer=tokenizer, **fields)

    shares = Temperature(alpha=0.7)
    parts = {
        "mlm": Mixture(parts={each: text(each, "train[:99%]") for each in LANGUAGES}, weights=shares),
        "tlm": Mixture(parts={each: pairs(each) for each in TRANSLATED}, weights=shares),
    }
    evals: dict[str, Evaluator] = {
        each: Evaluation(data=text(each, "train[99%:]"), every_steps=10_000, max_batches=20, task="mlm")
        for each in ("en", "de", "sw")
    }
    return Experiment(
        model=xlm(
            "xnli15-1024",
            dropout=0.1,
            mixer=Attention(dropout=0.1),
            stack=Stack(remat="dots"),
            dtype="bfloat16",
        ),
        objective=MultiTask(tasks={each: masked() for each in parts}),
        data=Tasks(parts=parts),
        evals=evals,
        optimizer=AdamW(peak_lr=1e-4, b2=0.98, weight_decay=0.0, schedule=InverseSquareRoot(warmup_steps=4000)),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=10_000),
        num_steps=600_000,
        batch_size=1024,
        log_every_steps=100,
    )
