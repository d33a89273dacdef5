"""The models of image and text of the benchmarks, small ones, and their data, of which there is the spec alone."""

from typing import Any

import numpy as np

from txjax.data import AlternatingTasks, CaptionedImages, Conversations, ImageQuestions
from txjax.models import Stage
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower, TwoTowers
from txjax.models.multimodal.unit import DecodedTask, MapEncoder, UniT
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder, llama
from txjax.models.vision.res_net import ResidualStem, ResNet
from txjax.nn import (
    GPT2,
    MLP,
    Classes,
    FirstToken,
    GroupNorm,
    LastToken,
    LayerNorm,
    Learned,
    NormedPool,
    ProductPooler,
    Projected,
    Stack,
    TransformedClasses,
)
from txjax.objectives import Classification, MultiTask, NextToken, SoftmaxContrastive
from txjax.optim import AdamW, train_all_but
from txjax.types import Batch

TASK = "questions"  # UniT's only one

SIZES: dict[str, dict[str, Any]] = {
    "clip": dict(
        image=64,
        patch=8,
        tower=dict(width=192, depth=6, heads=3),
        length=32,
        text=dict(vocab=1024, width=128, depth=4, heads=4),
        batch=32,
    ),
    "llava": dict(
        image=64,
        patch=8,
        tower=dict(width=192, depth=6, heads=3),
        length=128,
        text=dict(vocab=1024, width=256, depth=4, heads=4),
        batch=8,
    ),
    "vilbert": dict(
        image=64,
        patch=8,
        length=32,
        text=dict(vocab=1024, width=384, depth=2, heads=6),
        classes=10,
        width=256,
        depth=4,
        heads=4,
        batch=8,
    ),
    "unit": dict(
        image=64,
        stages=((64, 2), (128, 2)),
        groups=8,
        encoder=dict(width=64, depth=2, heads=4),
        length=32,
        text=dict(vocab=1024, width=128, depth=2, heads=4),
        tasks=256,
        queries=25,
        classes=10,
        width=128,
        depth=2,
        heads=4,
        batch=16,
    ),
}


def parts(name: str, size: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The model of this name in this size, its objective, its data, and its optimizer if it has one of its own."""
    size = dict(size)
    image, length = size.pop("image"), size.pop("length")
    return {"clip": clip, "llava": llava, "vilbert": vilbert, "unit": unit}[name](image, length, dtype=dtype, **size)


def clip(
    image: int, length: int, patch: int, tower: dict[str, int], text: dict[str, int], dtype: str
) -> dict[str, Any]:
    """CLIP with the softmax's loss over the batch; features are of the text tower's width."""
    features = text["width"]
    of_texts = dict(positions=Learned(max_length=length), initial=GPT2(), head=Projected(features, LastToken()))
    mlp = MLP(activation="quick_gelu")
    return {
        "model": TwoTowers(
            vision=clip_tower(image, patch, tower, dtype, head=Projected(features, NormedPool(FirstToken()))),
            text=Decoder(**text, **of_texts, mlp=mlp, norm=LayerNorm(eps=1e-5), dtype=dtype),
        ),
        "objective": SoftmaxContrastive(),
        "data": CaptionedImages(name="stamps", shape=(image, image, 3), length=length),
    }


def llava(
    image: int, length: int, patch: int, tower: dict[str, int], text: dict[str, int], dtype: str
) -> dict[str, Any]:
    """LLaVA 1.5 with a frozen tower, which it reads after the last layer but one."""
    vision = clip_tower(image, patch, tower, dtype, head=None, stack=Stack(outputs=(-2,)))
    return {
        "model": LLaVA.of(llama(**text, dtype=dtype), vision=vision, image_token=text["vocab"] - 1),
        "objective": NextToken(),
        "data": Conversations(name="txjax_canvases", shape=(image, image, 3), length=length),
        "optimizer": AdamW(weight_decay=0.1, groups=train_all_but("vision/.*")),
    }


def clip_tower(image: int, patch: int, size: dict[str, int], dtype: str, **fields: Any) -> CLIPImageTower:
    """CLIP's tower of square images."""
    positions = Learned(max_length=(image // patch) ** 2 + 1)
    return CLIPImageTower(patch=patch, positions=positions, norm=LayerNorm(eps=1e-5), **size, dtype=dtype, **fields)


def vilbert(
    image: int, length: int, patch: int, text: dict[str, int], classes: int, dtype: str, **size: int
) -> dict[str, Any]:
    """ViLBERT as a classifier of a text and the cells of an image's grid."""
    model = ViLBERT(
        **size,
        text=Bert(**text, positions=Learned(max_length=length), head=None, dtype=dtype),
        regions=GridRegions(patch=patch),
        head=Classes(classes, ProductPooler(size["width"])),
        dtype=dtype,
    )
    return {"model": model, "objective": Classification(), "data": questions(image, length, classes)}


def unit(
    image: int,
    length: int,
    stages: tuple[tuple[int, int], ...],
    groups: int,
    encoder: dict[str, int],
    text: dict[str, int],
    tasks: int,
    queries: int,
    classes: int,
    dtype: str,
    **size: int,
) -> dict[str, Any]:
    """UniT with one task, a question about an image."""
    backbone = ResNet(
        stages=tuple(Stage(*stage) for stage in stages),
        stem=ResidualStem(channels=stages[0][0] // 4),
        norm=GroupNorm(groups=groups),
        dtype=dtype,
    )
    model = UniT(
        **size,
        vision=MapEncoder(backbone=backbone, **encoder, dtype=dtype),
        text=Bert(**text, positions=Learned(max_length=length), head=None, dtype=dtype),
        tasks={TASK: DecodedTask(TransformedClasses(classes, FirstToken()), queries=queries)},
        most_tasks=tasks,
        dtype=dtype,
    )
    data = AlternatingTasks(parts={TASK: questions(image, length, classes)})
    return {"model": model, "objective": MultiTask(tasks={TASK: Classification()}), "data": data}


def questions(image: int, length: int, classes: int) -> ImageQuestions:
    """Questions about square images, with so many answers."""
    answers = tuple(map(str, range(classes)))
    return ImageQuestions(name="txjax_canvases", shape=(image, image, 3), length=length, answers=answers)


def with_image_tokens(model: Any, batch: Batch) -> Batch:
    """The batch with the model's image token in the first places of each text, one for each patch of its image."""
    if not isinstance(model, LLaVA):
        return batch
    side = batch["image"].shape[1] // model.vision.patch
    tokens = np.array(batch["tokens"])
    tokens[:, : side**2] = model.image_token
    return batch | {"tokens": tokens}
