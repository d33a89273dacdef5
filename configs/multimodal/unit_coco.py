"""UniT as published (Hu and Singh 2021): eight data sets of seven tasks, with one decoder, or `:separate` ones.

    txjax train --config=configs/multimodal/unit_coco.py --workdir=runs/unit_coco \\
        --config.init_from='(From("runs/detr_r50", here="vision"), From("runs/bert", here="text"))'

`coco` and GLUE's tasks are TFDS's. Visual Genome (boxes with an attribute), VQAv2 and SNLI-VE are sets of yours, whose
features are `image`, `objects` with `bbox`, `label` and `attribute`; `image`, `question` and `answer`; `image`,
`sentence` and `label` (docs/data.md): flags such as `--config.data.parts.vqa.name` name them. The tokenizer is
trained on COCO's captions; a BERT has its own, with `config.data.parts.qnli.tokenizer` and so on.

The backbone, DETR's encoder and BERT base begin as runs of these, the backbone with a fifth of the learning rate. The
authors' last stage has a stride of 1 with dilated convolutions, which this one has not, and their loss of VQA has the
shares of ten people's answers as targets, here one answer. The learning rate and the ratios are those of the authors'
configuration. `config.data.parts.vqa.answers` has the 3,129 answers, which are numbers here.

Cost: not stated. The runs of the paper took 500,000 updates of 64 examples.
Score: not run here. The paper gives 67.0% of VQAv2 and 73.1% of SNLI-VE.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import (
    AlternatingTasks,
    Dataset,
    Detections,
    Either,
    Flip,
    ImageQuestions,
    LabelledText,
    RandomCrop,
    ResizeWithin,
    TemplateQuestions,
    Trained,
    WordPiece,
)
from txjax.experiment import Experiment
from txjax.models.multimodal.unit.card import TASKS, separate_decoders, unit
from txjax.nn import ObjectBoxes
from txjax.objectives import Classification, MultiTask, SetPrediction
from txjax.optim import AdamW, Cosine, Group
from txjax.sharding import Mesh

VARIANTS = ("separate",)
PLANS = (("unit", "", "v5e:8x8", ()),)
RATIOS = {
    "coco": 0.20,
    "visual_genome": 0.07,
    "vqa": 0.26,
    "snli_ve": 0.12,
    "qnli": 0.10,
    "mnli": 0.10,
    "qqp": 0.10,
    "sst2": 0.05,
}
SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)


def get_config(decoders: str = "") -> Experiment:
    tasks = separate_decoders(TASKS) if decoders == "separate" else TASKS
    detection = {name for name, task in TASKS.items() if isinstance(task.head, ObjectBoxes)}
    objectives = {name: SetPrediction() if name in detection else Classification() for name in TASKS}
    return Experiment(
        model=unit(tasks=tasks, dtype="bfloat16"),
        objective=MultiTask(tasks=objectives),
        data=AlternatingTasks(parts=data_sets(), ratios=RATIOS),
        optimizer=AdamW(
            peak_lr=5e-5,
            b2=0.999,
            weight_decay=1e-4,
            clip=0.1,
            schedule=Cosine(warmup_steps=2000, final=0.0),
            groups=(Group("vision/backbone/.*", lr=0.2), Group("(?!vision/backbone/).*")),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=500_000,
        batch_size=64,
        log_every_steps=100,
    )


def data_sets() -> dict[str, Dataset]:
    """The training data by task."""
    tokenizer = Trained(
        algorithm=WordPiece(), size=30522, name="coco_captions", split="train", features=("captions/text",)
    )
    pixels: dict[str, Any] = dict(
        shape=(1344, 1344, 3), corrupt="skip", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    resize = ResizeWithin(SIDES, longest=1333)
    cropped = ResizeWithin((400, 500, 600), longest=4000), RandomCrop(384, 600), resize
    scenes: dict[str, Any] = dict(split="train", objects=100, transforms=(Flip(), Either((resize,), cropped)), **pixels)
    asked: dict[str, Any] = dict(split="train", tokenizer=tokenizer, too_long="cut", unusable="skip", **pixels)
    numbers = tuple(str(number) for number in range(3129))
    truth = "entailment", "neutral", "contradiction"

    def glue(task: str, classes: int, *features: str) -> LabelledText:
        fields = dict(text=features, classes=classes, length=128, tokenizer=tokenizer)
        return LabelledText(name=f"glue/{task}", split="train", **fields)

    return {
        "coco": Detections(name="coco/2017", classes=80, **scenes),
        "visual_genome": Detections(name="visual_genome", classes=1601, attribute="attribute", **scenes),
        "vqa": ImageQuestions(name="vqa_v2", questions=TemplateQuestions(), answers=numbers, length=25, **asked),
        "snli_ve": ImageQuestions(
            name="snli_ve", questions=TemplateQuestions("{sentence}", "{label}"), answers=truth, length=25, **asked
        ),
        "qnli": glue("qnli", 2, "question", "sentence"),
        "mnli": glue("mnli", 3, "premise", "hypothesis"),
        "qqp": glue("qqp", 2, "question1", "question2"),
        "sst2": glue("sst2", 2, "sentence"),
    }
