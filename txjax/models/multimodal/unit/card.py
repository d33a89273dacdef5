"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from txjax.models.cards import CLASSES, VOCAB, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.multimodal.unit.map_encoder import MapEncoder
from txjax.models.multimodal.unit.unit import DecodedTask, UniT
from txjax.models.text.bert.bert import Bert
from txjax.models.text.bert.card import bert
from txjax.models.vision.detr.card import detr
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.nn import (
    MLP,
    Classes,
    ConvEmbedding,
    FirstToken,
    Head,
    ObjectAttributes,
    ObjectBoxes,
    PositionedAttention,
    PositionedCrossAttention,
    TransformedClasses,
)


def _classes(count: int) -> Head:
    return TransformedClasses(count, FirstToken())


# The eight data sets of seven tasks (Hu and Singh 2021, section 4.2). Of texts without images the class token is read.
TASKS: dict[str, DecodedTask] = {
    "coco": DecodedTask(ObjectBoxes(91), queries=100),
    "visual_genome": DecodedTask(ObjectAttributes(1601, attributes=400), queries=100),
    "vqa": DecodedTask(_classes(3129)),
    "snli_ve": DecodedTask(_classes(3), text_tokens=1),
    "qnli": DecodedTask(_classes(2), text_tokens=1),
    "mnli": DecodedTask(_classes(3), text_tokens=1),
    "qqp": DecodedTask(_classes(2), text_tokens=1),
    "sst2": DecodedTask(_classes(2), text_tokens=1),
}


def unit(**fields: Any) -> UniT:
    """UniT (Hu and Singh 2021): DETR's encoder of images, BERT base, and one decoder for the tasks of eight data sets.

    Its text encoder has no pooler, which the authors' has and doesn't use. `separate_decoders(tasks)` gives each task
    a decoder of its own.
    """
    of_images = detr()
    names = ("backbone", "map_positions", "width", "depth", "heads", "mixer", "mlp", "dropout")
    dtype = fields.get("dtype", "float32")
    vision = MapEncoder(dtype=dtype, **{name: getattr(of_images, name) for name in names})
    parts: dict[str, Any] = dict(
        mixer=PositionedAttention(dropout=0.1),
        cross=PositionedCrossAttention(dropout=0.1),
        mlp=MLP(hidden=2048, activation="relu", dropout=0.1),
    )
    style: dict[str, Any] = dict(width=768, depth=6, heads=8, dropout=0.1, tasks=TASKS)
    return UniT(**dict(vision=vision, text=bert(head=None, dropout=0.1, dtype=dtype)) | style | parts | fields)


def separate_decoders(tasks: Mapping[str, DecodedTask]) -> dict[str, DecodedTask]:
    """The tasks with a decoder each (Hu and Singh 2021, table 3)."""
    return {name: dataclasses.replace(task, decoder=name) for name, task in tasks.items()}


_TINY = MapEncoder(backbone=MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding()), width=4, depth=1, heads=2)

CARD = Card(
    title="UniT",
    examples=(
        Example(
            model=_TINY,
            objectives={},
            returns="`DecoderSource`, for `UniT`",
            config="configs/multimodal/unit.py",
        ),
        Example(
            model=UniT(
                vision=_TINY,
                text=Bert(vocab=VOCAB, width=8, depth=1, heads=2, head=None),
                tasks={
                    "images": DecodedTask(Classes(CLASSES, FirstToken()), queries=3),
                    "texts": DecodedTask(Classes(CLASSES, FirstToken()), queries=2, text_tokens=1),
                },
                most_tasks=4,
                width=8,
                depth=2,
                heads=2,
            ),
            objectives={"MultiTask": None},
            returns="what the head of the task gives",
            config="configs/multimodal/unit.py",
        ),
    ),
    presets=(
        Preset(
            build=unit,
            paper="Hu and Singh 2021",
            remark="eight data sets, one decoder; without BERT's pooler",
            sizes={"": Size(200_917_308, "the authors' code: 201,507,900, with BERT's pooler, which is not used")},
        ),
    ),
    systems=(
        System(
            name="UniT",
            config="configs/multimodal/unit.py",
            score="eight data sets in one run: counts 90.5% of digits, AP50 44.9",
            presets=(unit,),
            equal_to="[DetrModel, BertModel, step by step](tests/multimodal/test_unit.py)",
            compiled="v5e:8x8",
        ),
    ),
)
