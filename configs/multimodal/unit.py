"""A small UniT: eight data sets of seven tasks on images and texts, with one decoder (Hu and Singh 2021).

    txjax train --config=configs/text/mlm_glue.py --workdir=runs/mlm_glue
    txjax train --config=configs/multimodal/unit.py --workdir=runs/unit --config.init_from.run=runs/mlm_glue
    txjax sweep --config=configs/multimodal/unit.py --workdir=runs/unit_study --jobs=2

Objects are detected on canvases of digits and of clothes; questions ask how many digits there are, and whether there is
one of a kind; statements are about drawings (`nlvr`), or are compared with another one (`glue/mrpc`); sentences are
grammatical or not (`glue/cola`), or what a bank's customer wants (`banking77`). Each batch is of one task, drawn at
random. The text encoder is a BERT that `configs/text/mlm_glue.py` trained on `glue`'s texts.

    txjax train --config=configs/multimodal/unit.py:separate ...    a decoder for each task
    txjax train --config=configs/multimodal/unit.py:mrpc ...        one task alone

The data sets must be prepared in TFDS_DATA_DIR (docs/data.md); the canvases are made once. The sweep of this file has
three seeds of all variants, which start from `runs/mlm_glue`; `experiments/unit/` compares them.

Cost: 8,000 updates, of which one of `counting` takes 3.8e9 FLOPs.
Score: not run to its end here. `counting` alone has 64% of its batches right after 60 updates.
"""

import dataclasses
from typing import Any

from txjax import sweep as axes
from txjax.data import (
    AlternatingTasks,
    Channels,
    Dataset,
    Detections,
    ImageQuestions,
    LabelledText,
    PresenceQuestions,
    ResizeWithin,
    TemplateQuestions,
    Trained,
    WordPiece,
)
from txjax.eval import GLUE, AveragePrecision, Evaluation, Evaluator, Predictions
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.multimodal.unit import DecodedTask, MapEncoder, UniT
from txjax.models.multimodal.unit.card import separate_decoders
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.res_net import ResidualStem
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import FirstToken, GroupNorm, Learned, ObjectBoxes, PreNorm, TransformedClasses
from txjax.objectives import Classification, MultiTask, SetPrediction
from txjax.optim import AdamW, Cosine, Group
from txjax.transfer import From

STEPS = 1000  # of each task
VARIANTS = (
    "shared",
    "separate",
    "digits",
    "clothes",
    "counting",
    "presence",
    "nlvr",
    "mrpc",
    "cola",
    "banking",
)
NAMES = VARIANTS[2:]
IMAGES_ALONE = ("digits", "clothes")  # tasks without a text


def get_config(variant: str = "shared") -> Experiment:
    chosen = (variant,) if variant in NAMES else NAMES
    parts = {name: part for name, part in of_tasks().items() if name in chosen}
    tasks = {name: task for name, (task, _, _) in parts.items()}
    backbone = ResNet(
        stages=(Stage(width=64, depth=2), Stage(width=128, depth=2)),
        stem=ResidualStem(channels=16),
        norm=GroupNorm(groups=8),
    )
    has_text = not set(chosen) <= set(IMAGES_ALONE)
    text = Bert(
        vocab=4000,
        width=128,
        depth=2,
        heads=4,
        head=None,
        block=PreNorm(),
        positions=Learned(max_length=64),
        dropout=0.1,
    )
    return Experiment(
        model=UniT(
            vision=MapEncoder(backbone=backbone, width=64, depth=2, heads=4, block=PreNorm()),
            text=text,
            tasks=separate_decoders(tasks) if variant == "separate" else tasks,
            width=128,
            depth=2,
            heads=4,
            block=PreNorm(),
        ),
        objective=MultiTask(
            tasks={
                name: SetPrediction() if isinstance(task.head, ObjectBoxes) else Classification()
                for name, task in tasks.items()
            }
        ),
        data=AlternatingTasks(parts={name: data for name, (_, data, _) in parts.items()}),
        evals={name: dataclasses.replace(scores, task=name) for name, (_, _, scores) in parts.items()},
        optimizer=AdamW(
            peak_lr=1e-3,
            weight_decay=1e-2,
            clip=0.1,
            schedule=Cosine(warmup_steps=100, final=0.0),
            groups=(Group("text/.*", lr=0.3), Group("(?!text/).*")) if has_text else (Group(".*"),),
        ),
        init_from=From(here="text") if has_text else None,
        num_steps=STEPS * len(parts),
        batch_size=16,
        log_every_steps=100,
    )


def of_tasks() -> dict[str, tuple[DecodedTask, Dataset, Evaluator]]:
    """What the model has for a task, its training data, and its evaluation."""
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name="glue/stsb", features=("sentence1", "sentence2"))
    canvases: dict[str, Any] = dict(shape=(64, 64, 3), mean=(0.2,), std=(0.25,), transforms=(Channels(3),))

    def objects(name: str) -> tuple[DecodedTask, Dataset, Evaluator]:
        scenes = dict(classes=10, objects=3, **canvases)
        scores = AveragePrecision(data=Detections(split="test", **scenes), every_steps=STEPS, batch_size=100)
        return DecodedTask(ObjectBoxes(10), queries=8), Detections(name=name, split="train", **scenes), scores

    def answers(name: str, test: str, **fields: Any) -> tuple[DecodedTask, Dataset, Evaluator]:
        asked = dict(tokenizer=tokenizer, length=32, too_long="cut", **fields)
        scores = Evaluation(data=ImageQuestions(split=test, **asked), every_steps=STEPS)
        head = TransformedClasses(len(fields["answers"]), FirstToken())
        return DecodedTask(head, queries=4), ImageQuestions(name=name, split="train", **asked), scores

    def texts(name: str, test: str, classes: int, *features: str) -> tuple[DecodedTask, Dataset, Evaluator]:
        sentences = dict(features=features, classes=classes, length=64, tokenizer=tokenizer, buckets=(16, 32))
        metrics = GLUE.get(name.removeprefix("glue/"), ("accuracy",))
        scores = Predictions(data=LabelledText(split=test, **sentences), metrics=metrics, every_steps=STEPS)
        task = DecodedTask(TransformedClasses(classes, FirstToken()), queries=4, text_tokens=1)
        return task, LabelledText(name=name, split="train", **sentences), scores

    counts = TemplateQuestions("How many digits are there?", "{count}")
    statements = TemplateQuestions("{sentence}", "{label}")
    drawings = dict(shape=(64, 256, 3), mean=(0.8,), std=(0.25,), transforms=(ResizeWithin((64,), 256),))
    return {
        "digits": objects("txjax_canvases"),
        "clothes": objects("txjax_canvases/fashion_mnist"),
        "counting": answers("txjax_canvases", "test", questions=counts, answers=("1", "2", "3"), **canvases),
        "presence": answers("txjax_canvases", "test", questions=PresenceQuestions(), answers=("no", "yes"), **canvases),
        "nlvr": answers("nlvr", "validation", questions=statements, answers=("false", "true"), **drawings),
        "mrpc": texts("glue/mrpc", "validation", 2, "sentence1", "sentence2"),
        "cola": texts("glue/cola", "validation", 2, "sentence"),
        "banking": texts("banking77", "test", 77, "text"),
    }


def sweep() -> list[dict]:
    """Three seeds of one decoder, of a decoder each and of a model each, with equal updates a task."""
    with_text = tuple(variant for variant in VARIANTS if variant not in IMAGES_ALONE)
    starts = axes.zip({"variant": with_text, "init_from.run": ["runs/mlm_glue"] * len(with_text)})
    return axes.grid(axes.chain(starts, axes.grid({"variant": IMAGES_ALONE})), {"seed": range(3)})
