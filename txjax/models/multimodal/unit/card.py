"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from txjax.models.cards import CLASSES, VOCAB, Card, Example
from txjax.models.hierarchical import Stage
from txjax.models.multimodal.unit.map_encoder import MapEncoder
from txjax.models.multimodal.unit.unit import DecodedTask, UniT
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.nn import Classes, ConvEmbedding, FirstToken

CARD = Card(
    title="UniT",
    examples=(
        Example(
            model=UniT(
                vision=MapEncoder(
                    backbone=MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding()), width=4, depth=1, heads=2
                ),
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
)
