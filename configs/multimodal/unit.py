"""A small UniT: eight data sets of seven tasks on images and texts, with one decoder (Hu and Singh 2021).

    txjax train --config=configs/multimodal/unit.py:detector --workdir=runs/unit_detector
    txjax train --config=configs/text/mlm_glue.py --workdir=runs/mlm_glue
    txjax train --config=configs/multimodal/unit.py --workdir=runs/unit \\
        --config.init_from[0].run=runs/unit_detector --config.init_from[1].run=runs/mlm_glue
    txjax sweep --config=configs/multimodal/unit.py --workdir=runs/unit_study --jobs=2

Objects are detected on canvases of digits and of clothes; questions ask how many digits there are, and whether there is
a 0, a 1 or a 2; statements are about drawings (`nlvr`), or are compared with another one (`glue/mrpc`); sentences are
grammatical or not (`glue/cola`), or what a bank's customer wants (`banking77`). Each batch is of one task, drawn at
random. As in the paper's rows with COCO's initialisation, the encoder of images and the decoder start from a UniT that
detects objects, which `:detector` trains on the digits; the encoder of texts starts from a BERT, that of
`configs/text/mlm_glue.py`. The decoder reads all tokens of a text; in the paper, the class token if there is no image.

    txjax train --config=configs/multimodal/unit.py:separate ...    a decoder for each task
    txjax train --config=configs/multimodal/unit.py:mrpc ...        one task alone

The data sets must be prepared in TFDS_DATA_DIR (docs/data.md); the canvases are made once. The sweep of this file has
three seeds of all variants, which start from both; `experiments/unit/` compares them.

Cost: 14 minutes on one of two busy CPU cores for the 8,000 updates of `shared`, and 10 for the 6,000 of `detector`.
Score: detector: eval/digits/ap50 0.607. `shared` from both runs: counting 0.905, presence 0.883 and digits 0.449, means
of three seeds; all tasks are in `experiments/unit/`, of which nlvr is at its floor.
"""

import dataclasses
from typing import Any

from txjax import sweep as axes
from txjax.data import (
    AlternatingTasks,
    BalancedPresenceQuestions,
    Channels,
    Dataset,
    Detections,
    ImageQuestions,
    LabelledText,
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

VARIANTS = (
    "detector",
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
UPDATES = {
    "digits": 600,
    "clothes": 1000,
    "counting": 400,
    "presence": 1600,
    "nlvr": 400,
    "mrpc": 400,
    "cola": 2000,
    "banking": 1600,
}
TEXTS = ("mrpc", "cola", "banking")  # tasks without an image
IMAGES = ("digits", "clothes")  # tasks without a text
DETECTOR = "runs/unit_detector"
BERT = "runs/mlm_glue"
CANVASES: dict[str, Any] = dict(shape=(64, 64, 3), mean=(0.2,), std=(0.25,), transforms=(Channels(3),))
OBJECTS: dict[str, Any] = dict(classes=10, objects=3, **CANVASES)
BACKBONE = ResNet(
    stages=(Stage(width=32, depth=1), Stage(width=64, depth=1)),
    stem=ResidualStem(channels=16),
    norm=GroupNorm(groups=8),
)
ENCODER: dict[str, Any] = dict(backbone=BACKBONE, width=64, depth=2, heads=4, block=PreNorm())


def get_config(variant: str = "shared") -> Experiment:
    chosen = ("digits",) if variant == "detector" else (variant,) if variant in UPDATES else tuple(UPDATES)
    num_steps = 6000 if variant == "detector" else sum(UPDATES[name] for name in chosen)
    parts = {name: part for name, part in of_tasks(num_steps // 2).items() if name in chosen}
    tasks = {name: task for name, (task, _, _) in parts.items()}
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
    uses = {"vision": variant not in TEXTS, "text": variant not in IMAGES}
    trained = () if variant == "detector" else tuple(name for name, is_used in uses.items() if is_used)
    return Experiment(
        model=UniT(
            vision=MapEncoder(**ENCODER),
            text=text,
            tasks=separate_decoders(tasks) if variant == "separate" else tasks,
            width=64,
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
        data=AlternatingTasks(
            parts={name: data for name, (_, data, _) in parts.items()},
            ratios={name: float(UPDATES[name]) for name in chosen},
        ),
        evals={name: dataclasses.replace(scores, task=name) for name, (_, _, scores) in parts.items()},
        optimizer=AdamW(
            peak_lr=1e-3,
            weight_decay=1e-2,
            clip=0.1,
            schedule=Cosine(warmup_steps=100, final=0.0),
            groups=slower(trained),
        ),
        init_from=tuple(origin for _, origin in origins(variant, chosen)) or None,
        num_steps=num_steps,
        batch_size=16,
        log_every_steps=100,
    )


def slower(encoders: tuple[str, ...]) -> tuple[Group, ...]:
    """Groups in which encoders have half the learning rate."""
    return *(Group(f"{name}/.*", lr=0.5) for name in encoders), Group(f"(?!({'|'.join(encoders)})/).*")


def origins(variant: str, chosen: tuple[str, ...]) -> list[tuple[str, From]]:
    """The runs that a variant starts from, and what each gives: the detector all that it has, BERT the text encoder.

    Args:
      chosen: the variant's tasks.
    """
    if variant == "detector":
        return []
    bert = [] if variant in IMAGES else [(BERT, From(here="text"))]
    if variant in TEXTS:
        return [(DETECTOR, From(here="decoder_shared")), *bert]
    of_text = () if variant in IMAGES else ("text", "text_features", "text_positions", "text_tasks")
    of_tasks = (part for name in chosen if name != "digits" for part in (name, f"queries_{name}"))
    decoders = tuple(f"decoder_{name}" for name in chosen) if variant == "separate" else ()
    whole = From(omit=("vision_tasks", *of_text, *of_tasks, *decoders))
    copies = [From(here=decoder, there="decoder_shared") for decoder in decoders]
    return [*((DETECTOR, origin) for origin in (whole, *copies)), *bert]


def of_tasks(every_steps: int) -> dict[str, tuple[DecodedTask, Dataset, Evaluator]]:
    """What the model has for a task, its training data, and its evaluation after so many steps."""
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name="glue/stsb", features=("sentence1", "sentence2"))

    def objects(name: str) -> tuple[DecodedTask, Dataset, Evaluator]:
        scores = AveragePrecision(data=Detections(split="test", **OBJECTS), every_steps=every_steps, batch_size=100)
        return DecodedTask(ObjectBoxes(10), queries=8), Detections(name=name, split="train", **OBJECTS), scores

    def answers(name: str, test: str, rounds: int = 1, **fields: Any) -> tuple[DecodedTask, Dataset, Evaluator]:
        asked = dict(tokenizer=tokenizer, length=32, too_long="cut", **fields)
        scores = Evaluation(data=ImageQuestions(split=test, **asked), every_steps=every_steps)
        head = TransformedClasses(len(fields["answers"]), FirstToken())
        data = ImageQuestions(name=name, split="train", rounds=rounds, **asked)
        return DecodedTask(head, queries=4), data, scores

    def texts(name: str, test: str, classes: int, *features: str) -> tuple[DecodedTask, Dataset, Evaluator]:
        sentences = dict(text=features, classes=classes, length=64, tokenizer=tokenizer, buckets=(16, 32))
        metrics = GLUE.get(name.removeprefix("glue/"), ("accuracy",))
        scores = Predictions(data=LabelledText(split=test, **sentences), metrics=metrics, every_steps=every_steps)
        task = DecodedTask(TransformedClasses(classes, FirstToken()), queries=4)
        return task, LabelledText(name=name, split="train", **sentences), scores

    counts = TemplateQuestions("How many digits are there?", "{count}")
    presence = BalancedPresenceQuestions(classes=("0", "1", "2"))
    statements = TemplateQuestions("{sentence}", "{label}")
    drawings = dict(shape=(32, 128, 3), mean=(0.8,), std=(0.25,), transforms=(ResizeWithin((32,), 128),))
    return {
        "digits": objects("txjax_canvases"),
        "clothes": objects("txjax_canvases/fashion_mnist"),
        "counting": answers("txjax_canvases", "test", questions=counts, answers=("1", "2", "3"), **CANVASES),
        "presence": answers("txjax_canvases", "test", rounds=10, questions=presence, answers=("no", "yes"), **CANVASES),
        "nlvr": answers("nlvr", "validation", questions=statements, answers=("false", "true"), **drawings),
        "mrpc": texts("glue/mrpc", "validation", 2, "sentence1", "sentence2"),
        "cola": texts("glue/cola", "validation", 2, "sentence"),
        "banking": texts("banking77", "test", 77, "text"),
    }


def sweep() -> list[dict]:
    """Three seeds of one decoder, of a decoder each and of a model each, with equal updates a task."""
    points = [
        {"name": variant, "variant": variant}
        | {f"init_from[{i}].run": run for i, (run, _) in enumerate(origins(variant, chosen))}
        for variant in (*UPDATES, "shared", "separate")
        for chosen in [(variant,) if variant in UPDATES else tuple(UPDATES)]
    ]
    return axes.grid({"seed": range(3)}, points)
