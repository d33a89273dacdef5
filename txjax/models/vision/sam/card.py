"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.vision.sam.sam import SAM, windows_then_all
from txjax.models.vision.vit.card import SIZES
from txjax.models.vision.vit.vit import ViT
from txjax.nn import MLP, Learned, PeriodicStack, PreNormWithoutFinal
from txjax.types import spec

# Layers of a period, of which the last one attends everywhere (Kirillov et al. 2023, A; sizes as in ViT)
SAM_PERIODS = {"B": 3, "L": 6, "H": 8}


def sam_encoder(size: str = "B", image: int = 1024, **fields: Any) -> ViT:
    """SAM's encoder of square images of this side: windows of 14 x 14 patches of 16 x 16 pixels, four global layers."""
    plain = dimensions_of(size, SIZES)
    side = image // 16
    positions = Learned(max_length=side**2)
    attention = windows_then_all(SAM_PERIODS[size], 14, side)
    style: dict[str, Any] = dict(patch=16, class_token=None, image_size=(image, image), positions=positions)
    layers: dict[str, Any] = dict(mixer=attention, block=PreNormWithoutFinal(), stack=PeriodicStack())
    return ViT(**plain | style | layers | fields)


def sam(size: str = "B", **fields: Any) -> SAM:
    """The Segment Anything Model (Kirillov et al. 2023) of images of 1024 x 1024 pixels."""
    return SAM(**dict(encoder=sam_encoder(size)) | fields)


CARD = Card(
    title="SAM",
    examples=(
        Example(
            model=SAM(
                encoder=ViT(patch=2, width=8, depth=2, heads=2), width=8, depth=2, heads=2, mlp=MLP(activation="relu")
            ),
            objectives={"PromptedMasks": None},
            returns="logits of masks `[B N M h w]`, predicted IoUs `[B N M]`",
            config="configs/vision/sam_canvases.py",
            limits="attention kernels in the encoder: none takes a bias that depends on the query",
        ),
    ),
    presets=(
        Preset(
            build=sam,
            paper="Kirillov et al. 2023, A",
            remark="width, depth and heads of the image encoder",
            sizes={
                "B": Size(93_735_472),
                "L": Size(312_342_832),
                "H": Size(641_090_608),
            },
            reference="SamModel",
            trunk="encoder",
            inputs={"image": spec((1, 1024, 1024, 3), "float32"), "mask": spec((1, 1, 256, 256), "float32")},
        ),
    ),
    systems=(
        System(
            name="SAM",
            config="configs/vision/sam_canvases.py",
            score="IoU 0.794 after one click",
            presets=(sam,),
            equal_to="[SamModel](tests/interop/test_parity.py)",
            compiled="H on v5p:4x4x4",
        ),
    ),
)
