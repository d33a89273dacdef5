"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.errors import UserError
from txjax.models.cards import CLASSES, VOCAB, Card, Example, Preset, Size, System
from txjax.models.multimodal.vilbert.regions import GivenRegions, GridRegions
from txjax.models.multimodal.vilbert.vilbert import ViLBERT
from txjax.models.text.bert.bert import Bert
from txjax.models.text.bert.card import bert
from txjax.nn import (
    MLP,
    Classes,
    Heads,
    MaskedPairs,
    MaskedTokens,
    NextSentence,
    ObjectBoxes,
    ProductPooler,
    RegionOutputs,
    StartEnd,
    Tied,
    TokenClasses,
)
from txjax.types import spec

CONNECTIONS = ("2", "4", "6", "8")
TEXT_LAYERS = 12


def vilbert(connections: str = "6", **fields: Any) -> ViLBERT:
    """ViLBERT (Lu et al. 2019) on BERT base: as many layers of the image as connections, all in the last text layers.

    Regions have 2,048 features of a detector of 1,601 classes; the head is that of pretraining.
    """
    if connections not in CONNECTIONS:
        raise UserError("size", "one of " + ", ".join(CONNECTIONS), connections)
    depth = int(connections)
    head = MaskedPairs(MaskedTokens(next_sentence=NextSentence(ProductPooler(1024))), RegionOutputs(1601))
    style: dict[str, Any] = dict(
        text=bert("base", depth=TEXT_LAYERS - depth, head=None, dtype=fields.get("dtype", "float32")),
        regions=GivenRegions(),
        width=1024,
        depth=depth,
        heads=8,
        mlp=MLP(hidden=1024),
        head=head,
    )
    return ViLBERT(**style | fields)


def unused(weights: str) -> str:
    """The remark of a size on the weights of the authors' files."""
    return f"{weights} in the authors' files, with layers that they never use"


PAIR = {
    "tokens": spec((1, 8), "int32"),
    "regions": spec((1, 5, 2048), "float32"),
    "region_boxes": spec((1, 5, 4), "float32"),
}

MASKED_TEXT = MaskedTokens(next_sentence=NextSentence(ProductPooler(10)))  # of the tiny model

CARD = Card(
    title="ViLBERT",
    examples=(
        Example(
            model=ViLBERT(
                text=Bert(vocab=VOCAB, width=8, depth=1, heads=2, head=None),
                regions=GridRegions(patch=2),
                width=12,
                depth=2,
                heads=3,
                cross_heads=2,
                head=Classes(CLASSES, ProductPooler(10)),
            ),
            objectives={
                "Classification": None,
                "MaskedTextAndRegions": MaskedPairs(MASKED_TEXT, RegionOutputs(4)),
                "MaskedToken": MASKED_TEXT,
                "Regression": Classes(1, ProductPooler(10)),
                "SetPrediction": ObjectBoxes(CLASSES),
                "Spans": StartEnd(),
                "TokenClassification": TokenClasses(VOCAB),
                "WithNextToken": Heads({"task": Classes(CLASSES, ProductPooler(10)), "text": Tied()}),
            },
            returns="what its `head` gives",
            config="configs/multimodal/vilbert_canvases.py",
        ),
    ),
    presets=(
        Preset(
            build=vilbert,
            paper="Lu et al. 2019",
            remark="BERT base, regions of 2,048 features, heads of pretraining",
            sizes={
                "2": Size(157_109_373, unused("160,782,973")),
                "4": Size(198_066_301, unused("205,413,501")),
                "6": Size(239_023_229, unused("250,044,029")),
                "8": Size(279_980_157, unused("294,674,557")),
            },
            inputs=PAIR,
        ),
    ),
    systems=(
        System(
            name="ViLBERT",
            config="configs/multimodal/vilbert_canvases.py",
            score="85.2% of questions about canvases, 57.8% with other images",
            presets=(vilbert,),
            equal_to="[mmf's classes](tests/multimodal/test_vilbert_parity.py)",
            compiled="v5e:4x4",
        ),
    ),
)
