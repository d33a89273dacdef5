"""Published sizes of image models. Every field can be overridden by an argument or a flag.

    presets.vit("B/16", head=Classes(10, FirstToken()), positions=Learned(max_length=577))  # for 384 x 384 pixels

`docs/sizes.md` has their parameter counts.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from txjax.models.hierarchical import Stage
from txjax.models.text.bert import Bert
from txjax.models.transformer import sized
from txjax.models.vision.bit import BiT
from txjax.models.vision.conv_next import ConvNeXt
from txjax.models.vision.cvt import CvT
from txjax.models.vision.detr import DETR
from txjax.models.vision.mae import MAE
from txjax.models.vision.mask_git import mask_git as bert_of_codes
from txjax.models.vision.max_vit import MaxViT, MaxViTStem
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.rep_lk_net import RepLKNet
from txjax.models.vision.res_net import ResNet
from txjax.models.vision.sam import SAM, windows_then_all
from txjax.models.vision.swin import Swin
from txjax.models.vision.vit import ViT
from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import (
    MLP,
    BottleneckStem,
    Classes,
    FirstToken,
    FrozenBatchNorm,
    LargeKernelMixer,
    LayerNorm,
    Learned,
    MeanTokens,
    NormedPool,
    ObjectBoxes,
    ParallelKernels,
    Periods,
    Pooler,
    PositionedAttention,
    PositionedCrossAttention,
    PreNorm,
    PreNormWithoutFinal,
)
from txjax.types import UserError, near_misses

# width, depth, heads (Dosovitskiy et al. 2021, table 1)
_SIZES: dict[str, tuple[int, int, int]] = {"B": (768, 12, 12), "L": (1024, 24, 16), "H": (1280, 32, 16)}
VIT: dict[str, tuple[int, int, int]] = {f"{size}/{p}": _SIZES[size] for size, p in (("B", 16), ("L", 16), ("H", 14))}


# Widths, depths and heads of the stages (Liu et al. 2021, 3.3)
SWIN: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (2, 2, 6, 2), (3, 6, 12, 24)),
    "S": ((96, 192, 384, 768), (2, 2, 18, 2), (3, 6, 12, 24)),
    "B": ((128, 256, 512, 1024), (2, 2, 18, 2), (4, 8, 16, 32)),
    "L": ((192, 384, 768, 1536), (2, 2, 18, 2), (6, 12, 24, 48)),
}
# Widths and depths (Liu et al. 2022, 3.1)
CONVNEXT: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (3, 3, 9, 3)),
    "S": ((96, 192, 384, 768), (3, 3, 27, 3)),
    "B": ((128, 256, 512, 1024), (3, 3, 27, 3)),
    "L": ((192, 384, 768, 1536), (3, 3, 27, 3)),
    "XL": ((256, 512, 1024, 2048), (3, 3, 27, 3)),
}
# Widths and depths (Yu et al. 2022, table 1)
POOLFORMER: dict[str, tuple[tuple[int, ...], ...]] = {
    "S12": ((64, 128, 320, 512), (2, 2, 6, 2)),
    "S24": ((64, 128, 320, 512), (4, 4, 12, 4)),
    "S36": ((64, 128, 320, 512), (6, 6, 18, 6)),
    "M36": ((96, 192, 384, 768), (6, 6, 18, 6)),
    "M48": ((96, 192, 384, 768), (8, 8, 24, 8)),
}
# Widths, depths and heads (Wu et al. 2021, table 2)
CVT: dict[str, tuple[tuple[int, ...], ...]] = {
    "13": ((64, 192, 384), (1, 2, 10), (1, 3, 6)),
    "21": ((64, 192, 384), (1, 4, 16), (1, 3, 6)),
    "W24": ((192, 768, 1024), (2, 2, 20), (3, 12, 16)),
}
# Widths and depths (Kolesnikov et al. 2020, 3.1)
BIT: dict[str, tuple[tuple[int, ...], ...]] = {
    "R50x1": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "R50x3": ((768, 1536, 3072, 6144), (3, 4, 6, 3)),
    "R101x1": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "R101x3": ((768, 1536, 3072, 6144), (3, 4, 23, 3)),
    "R152x2": ((512, 1024, 2048, 4096), (3, 8, 36, 3)),
    "R152x4": ((1024, 2048, 4096, 8192), (3, 8, 36, 3)),
}
# Widths and depths (He et al. 2016, table 1)
RESNET: dict[str, tuple[tuple[int, ...], ...]] = {
    "50": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "101": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "152": ((256, 512, 1024, 2048), (3, 8, 36, 3)),
}
# Widths and depths; sides of the large kernels (Ding et al. 2022, 4.3)
REPLKNET: dict[str, tuple[tuple[int, ...], ...]] = {
    "31B": ((128, 256, 512, 1024), (2, 2, 18, 2)),
    "31L": ((192, 384, 768, 1536), (2, 2, 18, 2)),
    "XL": ((256, 512, 1024, 2048), (2, 2, 18, 2)),
}
# Widths, depths and heads of 32 channels (Tu et al. 2022, table 1), and channels of the stem
MAX_VIT: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((64, 128, 256, 512), (2, 2, 5, 2), (2, 4, 8, 16)),
    "S": ((96, 192, 384, 768), (2, 2, 5, 2), (3, 6, 12, 24)),
    "B": ((96, 192, 384, 768), (2, 6, 14, 2), (3, 6, 12, 24)),
    "L": ((128, 256, 512, 1024), (2, 6, 14, 2), (4, 8, 16, 32)),
    "XL": ((192, 384, 768, 1536), (2, 6, 14, 2), (6, 12, 24, 48)),
}
# Layers of a period, of which the last one attends everywhere (Kirillov et al. 2023, A; sizes as in ViT)
SAM_PERIODS = {"B": 3, "L": 6, "H": 8}
_STEMS = {"T": 64, "S": 64, "B": 64, "L": 128, "XL": 192}
# Tokens of an image, by its side in pixels (Chang et al. 2022, 4.1)
MASK_GIT: dict[str, int] = {"256": 16 * 16, "512": 32 * 32}


def stages(size: str, sizes: Mapping[str, tuple[tuple[int, ...], ...]]) -> tuple[Stage, ...]:
    """The stages of a published size. Raises UserError for an unknown one."""
    if size not in sizes:
        raise UserError("size", "one of " + ", ".join(sizes), size, near_misses(size, sizes))
    return tuple(itertools.starmap(Stage, zip(*sizes[size], strict=True)))


def vit(size: str = "B/16", **fields: Any) -> ViT:
    """The Vision Transformer (Dosovitskiy et al. 2021): 1,000 classes, 224 x 224 pixels."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    head, positions = Classes(1000, FirstToken()), Learned(max_length=(224 // patch) ** 2 + 1)
    style: dict[str, Any] = dict(patch=patch, head=head, positions=positions)
    return ViT(**plain | style | fields)


def mae(size: str = "B/16", **fields: Any) -> MAE:
    """The masked autoencoder (He et al. 2022): a decoder of width 512, 8 layers and 16 heads."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    return MAE(**plain | dict(patch=patch) | fields)


def swin(size: str = "T", **fields: Any) -> Swin:
    """The Swin Transformer (Liu et al. 2021): windows of 7 x 7 patches of 4 x 4 pixels, 1,000 classes."""
    style: dict[str, Any] = dict(norm=LayerNorm(eps=1e-5), head=Classes(1000, MeanTokens()))
    return Swin(**dict(stages=stages(size, SWIN)) | style | fields)


def convnext(size: str = "T", **fields: Any) -> ConvNeXt:
    """ConvNeXt (Liu et al. 2022): kernels of 7 x 7, 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, NormedPool()))
    return ConvNeXt(**dict(stages=stages(size, CONVNEXT)) | style | fields)


def poolformer(size: str = "S12", **fields: Any) -> MetaFormer:
    """PoolFormer (Yu et al. 2022), 1,000 classes. From S36 on the layer scale is 1e-6 at first."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    if size not in ("S12", "S24"):
        style["block"] = PreNorm(layer_scale=1e-6)
    return MetaFormer(**dict(stages=stages(size, POOLFORMER)) | style | fields)


def cvt(size: str = "13", **fields: Any) -> CvT:
    """The Convolutional vision Transformer (Wu et al. 2021): 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, FirstToken()))
    return CvT(**dict(stages=stages(size, CVT)) | style | fields)


def bit(size: str = "R50x1", **fields: Any) -> BiT:
    """BiT's residual networks (Kolesnikov et al. 2020): 1,000 classes."""
    made = stages(size, BIT)
    style: dict[str, Any] = dict(stem=BottleneckStem(channels=made[0].width // 4), head=Classes(1000, MeanTokens()))
    return BiT(**dict(stages=made) | style | fields)


def resnet(size: str = "50", **fields: Any) -> ResNet:
    """Residual networks (He et al. 2016), 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    return ResNet(**dict(stages=stages(size, RESNET)) | style | fields)


def detr(size: str = "R50", **fields: Any) -> DETR:
    """DETR (Carion et al. 2020) on a ResNet with constant batch norms: 91 classes, 100 queries."""
    backbone = resnet(size.removeprefix("R"), norm=FrozenBatchNorm(), head=None)
    style: dict[str, Any] = dict(width=256, depth=6, heads=8, dropout=0.1, head=ObjectBoxes(classes=91))
    parts: dict[str, Any] = dict(
        attention=PositionedAttention(dropout=0.1),
        cross=PositionedCrossAttention(dropout=0.1),
        mlp=MLP(hidden=2048, activation="relu", dropout=0.1),
    )
    return DETR(**dict(backbone=backbone) | style | parts | fields)


def replknet(size: str = "31B", **fields: Any) -> RepLKNet:
    """RepLKNet (Ding et al. 2022), 1,000 classes. XL has kernels of 27 x 27 without small ones in parallel."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    if size == "XL":
        mixer = LargeKernelMixer(kernel=ParallelKernels(small=None), ratio=1.5)
        style |= dict(sides=(27, 27, 27, 13), attention=mixer)
    return RepLKNet(**dict(stages=stages(size, REPLKNET)) | style | fields)


def max_vit(size: str = "T", **fields: Any) -> MaxViT:
    """MaxViT (Tu et al. 2022): windows and grids of 7 x 7, 1,000 classes."""
    layers = stages(size, MAX_VIT)
    style: dict[str, Any] = dict(stem=MaxViTStem(channels=_STEMS[size]), head=Classes(1000, Pooler(pool=NormedPool())))
    return MaxViT(**dict(stages=layers) | style | fields)


def vq_tokenizer(**fields: Any) -> VQTokenizer:
    """MaskGIT's tokenizer (Chang et al. 2022, 4.1): a token has 16 x 16 pixels, and there are 1,024 codes."""
    return VQTokenizer(**dict(width=128, depth=2, codes=1024) | fields)


def mask_git(size: str = "256", **fields: Any) -> Bert:
    """MaskGIT (Chang et al. 2022, 4.1), for 1,000 classes. The authors' code has 16 heads, the paper 8."""
    if size not in MASK_GIT:
        raise UserError("size", "one of " + ", ".join(MASK_GIT), size, near_misses(size, MASK_GIT))
    style: dict[str, Any] = dict(codes=1024, classes=1000, patches=MASK_GIT[size], width=768, depth=24, heads=8)
    return bert_of_codes(**style | fields)


def sam_encoder(size: str = "B", image: int = 1024, **fields: Any) -> ViT:
    """SAM's encoder of square images of this side: windows of 14 x 14 patches of 16 x 16 pixels, four global layers."""
    plain, side = sized(size, _SIZES), image // 16
    positions, attention = Learned(max_length=side**2), windows_then_all(SAM_PERIODS[size], 14, side)
    style: dict[str, Any] = dict(patch=16, class_token=None, image_size=(image, image), positions=positions)
    layers: dict[str, Any] = dict(attention=attention, block=PreNormWithoutFinal(), stack=Periods())
    return ViT(**plain | style | layers | fields)


def sam(size: str = "B", **fields: Any) -> SAM:
    """The Segment Anything Model (Kirillov et al. 2023) of images of 1024 x 1024 pixels."""
    return SAM(**dict(encoder=sam_encoder(size)) | fields)
