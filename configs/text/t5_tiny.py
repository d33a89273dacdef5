"""T5 in small: translation and tasks of GLUE, all of them text to text in one run; a prefix names the task.

    txjax train --config=configs/text/t5_tiny.py --workdir=runs/t5_tiny

Variants: v1_1 (the default: gated GELU, an output kernel of its own) and v1_0 (ReLU, tied). `multi30k/en_de`,
`glue/cola` and `glue/stsb` must be prepared in TFDS_DATA_DIR (docs/data.md). The tasks are mixed in proportion to their
sizes (Raffel et al. 2020, 3.5.2). One vocabulary of 4,000 pieces of bytes, of the translations, serves all tasks; 28%
of the pairs of `stsb` are longer than 64 of them and are cut. The optimizer is the paper's in small: Adafactor, whose
steps are relative to a parameter's own size, and the inverse square root of the step. BLEU needs the extra `text`.

Cost: about 11 minutes on two CPU cores.
Score: v1_1: eval/translation_texts/bleu 31.31, on the validation set (the nearest training sentence has 9.6 on the test
set). Without pretraining the tasks of GLUE are not learned: Matthews correlation 0 on cola, Pearson 0.03 on stsb.
"""

from typing import Any

from txjax.data import BPE, Mixture, Pairs, Trained
from txjax.decoding import Beam
from txjax.eval import Evaluation, GeneratedTexts
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import t5, t5_v1_1
from txjax.objectives import NextToken
from txjax.optim import Adafactor, InverseSquareRoot

VARIANTS = ("v1_1", "v1_0")
# The data set, the source and the target of each task, and its metric.
TASKS = {
    "translation": ("multi30k/en_de", "translate English to German: {en}", "{de}", "bleu"),
    "cola": ("glue/cola", "cola sentence: {sentence}", "{label}", "matthews"),
    "stsb": ("glue/stsb", "stsb sentence1: {sentence1} sentence2: {sentence2}", "{label:.1f}", "pearson"),
}


def get_config(version: str = "v1_1") -> Experiment:
    specials = ("[PAD]", "[START]", "[END]")
    tokenizer = Trained(algorithm=BPE(), size=4000, name="multi30k/en_de", features=("en", "de"), specials=specials)
    lengths: dict[str, Any] = dict(source_length=64, length=40)

    def pairs(task: str, split: str) -> Pairs:
        name, source, target, _ = TASKS[task]
        return Pairs(name=name, split=split, source_text=source, target_text=target, tokenizer=tokenizer, **lengths)

    def texts(task: str) -> GeneratedTexts:
        return GeneratedTexts(
            pairs(task, "validation"), metrics=(TASKS[task][3],), search=Beam(), every_steps=num_steps
        )

    model, num_steps = t5 if version == "v1_0" else t5_v1_1, 3000
    losses = {task: Evaluation(data=pairs(task, "validation"), every_steps=1000) for task in TASKS}
    return Experiment(
        model=model(vocab=4000, width=128, depth=2, heads=4, dropout=0.1),
        objective=NextToken(),
        data=Mixture(parts={task: pairs(task, "train") for task in TASKS}),
        evals=losses | {f"{task}_texts": texts(task) for task in TASKS},
        optimizer=Adafactor(peak_lr=5e-2, schedule=InverseSquareRoot(warmup_steps=300)),
        num_steps=num_steps,
        batch_size=64,
        log_every_steps=100,
    )
