"""The nine tasks of GLUE with a small BERT: one sentence or a pair, a class or a number, by the task's own metrics.

    txjax train --config=configs/text/glue.py:mrpc --workdir=runs/mrpc --config.init_from=runs/mlm_glue
    txjax sweep --config=configs/text/glue.py --workdir=runs/glue --config.init_from=runs/mlm_glue
    python experiments/glue/table.py runs/glue

Variants: cola, sst2, rte, wnli, mrpc, qnli, qqp, stsb (a number from 0 to 5) and mnli (three classes, two validation
sets). Without `init_from` the model learns from scratch. The task must be prepared in TFDS_DATA_DIR, and `glue/stsb`
too, whose text the tokenizer was trained on. The sweep has three seeds of every task that is prepared, the script one
table of them.

Three epochs of each task, as in BERT. The pooler is that of `mlm_glue`'s pairs.

Cost: 344 updates of mrpc, 539 of stsb, 802 of cola: 1 minute each on one of two busy CPU cores.
Score: mrpc: eval/valid/accuracy 0.667 from scratch (seed 0). With three seeds, from scratch and from `mlm_glue`: mrpc
68.1 ± 0.7 and 73.5 ± 0.7% (the most frequent class has 68.4%), stsb a Pearson correlation of 9.3 ± 0.8 and 71.2 ± 0.3,
cola a Matthews correlation of 10.7 ± 1.3 and 0.2 ± 1.9 (times 100, `validation`). The others were not run.
"""

from typing import Any

from txjax import sweep as axes
from txjax.checkpoint import Checkpoints
from txjax.data import LabelledText, ScoredText, Trained, WordPiece
from txjax.data.tfds.records import folder, prepared_sets
from txjax.eval import GLUE, Predictions
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Classes, Learned, Pooler, PreNorm
from txjax.objectives import Classification, Objective, Regression
from txjax.optim import AdamW, Linear
from txjax.transfer import From

SINGLE, PAIR = ("sentence",), ("sentence1", "sentence2")
FEATURES = {
    "cola": SINGLE,
    "sst2": SINGLE,
    "rte": PAIR,
    "wnli": PAIR,
    "mrpc": PAIR,
    "stsb": PAIR,
    "qnli": ("question", "sentence"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
}
CLASSES = {"mnli": 3}  # the others have two
SCORES = ("stsb",)  # tasks with a number in the place of a class
EXAMPLES = {
    "cola": 8551,
    "sst2": 67349,
    "rte": 2490,
    "wnli": 635,
    "mrpc": 3668,
    "stsb": 5749,
    "qnli": 104743,
    "qqp": 363846,
    "mnli": 392702,
}
EPOCHS = 3  # as in BERT (Devlin et al. 2019, 4.1)
BATCH = 32
VALIDATION = {"mnli": {"valid": "validation_matched", "mismatched": "validation_mismatched"}}
VARIANTS = tuple(FEATURES)


def get_config(task: str = "cola") -> Experiment:
    task = task or "cola"
    is_score = task in SCORES
    objective: Objective = Regression() if is_score else Classification()
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name="glue/stsb", features=PAIR)

    kind = ScoredText if is_score else LabelledText
    sentences: dict[str, Any] = dict(text=FEATURES[task], length=64, tokenizer=tokenizer, buckets=(16, 32))
    metrics = GLUE[task]
    num_steps = EPOCHS * EXAMPLES[task] // BATCH
    model = Bert(
        vocab=4000,
        width=128,
        depth=2,
        heads=4,
        head=Classes(1 if is_score else CLASSES.get(task, 2), Pooler()),
        dropout=0.1,
        block=PreNorm(),
        positions=Learned(max_length=64),
    )
    return Experiment(
        model=model,
        objective=objective,
        data=kind(name=f"glue/{task}", split="train", **sentences),
        evals={
            name: Predictions(data=kind(split=split, **sentences), metrics=metrics, every_steps=200)
            for name, split in VALIDATION.get(task, {"valid": "validation"}).items()
        },
        optimizer=AdamW(peak_lr=3e-4, weight_decay=0.01, schedule=Linear(warmup_steps=num_steps // 10)),
        checkpoint=Checkpoints(every_steps=200, best=f"eval/valid/{metrics[0]}", best_mode="max"),
        num_steps=num_steps,
        batch_size=BATCH,
        log_every_steps=50,
        init_from=From(omit=("head",)),  # a Bert's head has a bias a word
    )


def sweep() -> list[dict]:
    """Three seeds of each task that is prepared; of all nine if none is."""
    here = {name.partition(":")[0] for name in prepared_sets(folder("glue", None))}
    tasks = [task for task in FEATURES if f"glue/{task}" in here] or [*FEATURES]
    return axes.grid({"variant": tasks, "seed": range(3)})
