"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from collections.abc import Mapping
from typing import Any

from txjax.models.cards import CLASSES, EXAMPLE_TASKS, TOKEN_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.multimodal.two_towers.probe_pool import ProbePool
from txjax.models.multimodal.two_towers.towers import CLIPImageTower, FixedLengthText, SigLIPImageTower
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import (
    GPT2,
    MLP,
    FirstToken,
    LastToken,
    LayerNorm,
    Learned,
    NormedPool,
    ObjectBoxes,
    Pooled,
    Projected,
)
from txjax.types import spec

# Width, depth, heads of the image tower and of the text tower, and pixels (Radford et al. 2021, tables 19 and 20)
CLIP_IMAGES = {"ViT-B/32": (768, 12, 12), "ViT-B/16": (768, 12, 12)}
CLIP_IMAGES |= dict.fromkeys(("ViT-L/14", "ViT-L/14@336"), (1024, 24, 16))
CLIP_TEXTS = dict.fromkeys(("ViT-B/32", "ViT-B/16"), (512, 12, 8))
CLIP_TEXTS |= dict.fromkeys(("ViT-L/14", "ViT-L/14@336"), (768, 12, 12))
CLIP_VOCAB = 49_408
# Width, depth, heads of both towers (Zhai et al. 2023; Alabdulmohsin et al. 2023, table 2, for so400m)
SIGLIP = {"base/16-224": (768, 12, 12), "large/16-256": (1024, 24, 16), "so400m/14-384": (1152, 27, 16)}
SIGLIP2 = {size: SIGLIP[size] for size in ("base/16-224", "so400m/14-384")}
HIDDEN = {"so400m/14-384": 4304}  # of the MLPs, where it is not four times the width


def clip(size: str = "ViT-B/32", towers: Mapping[str, Any] | None = None, **fields: Any) -> TwoTowers:
    """CLIP (Radford et al. 2021): texts of up to 77 tokens, features of the text tower's width.

    Args:
      towers: fields of both towers, such as `dtype` and `stack`.
    """
    images: dict[str, Any] = dimensions_of(size, CLIP_IMAGES)
    texts: dict[str, Any] = dimensions_of(size, CLIP_TEXTS)
    architecture, _, pixels = size.partition("@")
    patch = int(architecture.partition("/")[2])
    side = int(pixels or 224)
    both: dict[str, Any] = dict(mlp=MLP(activation="quick_gelu"), norm=LayerNorm(eps=1e-5)) | dict(towers or {})
    of_images: dict[str, Any] = dict(
        patch=patch,
        image_size=(side, side),
        positions=Learned(max_length=(side // patch) ** 2 + 1),
        head=Projected(texts["width"], NormedPool(FirstToken())),
    )
    of_texts: dict[str, Any] = dict(
        vocab=CLIP_VOCAB,
        positions=Learned(max_length=77),
        initial=GPT2(),
        head=Projected(texts["width"], LastToken()),
    )
    vision = CLIPImageTower(**images | of_images | both)
    text = Decoder(**texts | of_texts | both)
    return TwoTowers(**dict(vision=vision, text=text) | fields)


def siglip(size: str = "base/16-224", towers: Mapping[str, Any] | None = None, **fields: Any) -> TwoTowers:
    """SigLIP (Zhai et al. 2023): 32,000 tokens, texts padded to 64 of them, features of the towers' width.

    Args:
      towers: fields of both towers, such as `dtype` and `stack`.
    """
    dimensions: dict[str, Any] = dimensions_of(size, SIGLIP)
    patch, side = map(int, size.partition("/")[2].split("-"))
    mlp = MLP(hidden=HIDDEN.get(size), activation="gelu_tanh")
    both: dict[str, Any] = dimensions | dict(mlp=mlp) | dict(towers or {})
    of_images: dict[str, Any] = dict(
        patch=patch,
        image_size=(side, side),
        positions=Learned(max_length=(side // patch) ** 2),
        head=Pooled(ProbePool()),
    )
    of_texts: dict[str, Any] = dict(
        vocab=32_000,
        positions=Learned(max_length=64),
        head=Projected(dimensions["width"], LastToken(), use_bias=True),
    )
    vision = SigLIPImageTower(**of_images | both)
    text = FixedLengthText(**of_texts | both)
    sigmoid: dict[str, Any] = dict(scale=10.0, bias=-10.0, largest_scale=None)
    return TwoTowers(**dict(vision=vision, text=text) | sigmoid | fields)


def siglip2(size: str = "base/16-224", towers: Mapping[str, Any] | None = None, **fields: Any) -> TwoTowers:
    """SigLIP 2 for images of one size (Tschannen et al. 2025): SigLIP with 256,000 tokens.

    Args:
      towers: fields of both towers, such as `dtype` and `stack`.
    """
    dimensions_of(size, SIGLIP2)  # raises for a size that it does not have
    model = siglip(size, towers)
    return model.clone(text=model.text.clone(vocab=256_000), **fields)


def pixels(side: int) -> dict[str, Any]:
    """An image of so many rows and columns, to count a model with."""
    return {"image": spec((1, side, side, 3), "float32")}


TINY: dict[str, Any] = dict(width=8, depth=2, heads=2)
IMAGE_TASKS = EXAMPLE_TASKS | {"SetPrediction": ObjectBoxes(CLASSES)}
WITH_CLIP = "configs/multimodal/clip.py"
WITH_SIGLIP = "configs/multimodal/siglip.py"

CARD = Card(
    title="CLIP and SigLIP",
    examples=(
        Example(
            model=TwoTowers(
                vision=SigLIPImageTower(patch=2, **TINY, head=Pooled(ProbePool())),
                text=FixedLengthText(vocab=VOCAB, **TINY, head=Projected(8, LastToken(), use_bias=True)),
                scale=10.0,
                bias=-10.0,
                largest_scale=None,
            ),
            objectives={"SigmoidContrastive": None, "SoftmaxContrastive": None},
            returns="`PairFeatures`",
            config="configs/multimodal/clip_captions.py",
            limits="losses of single examples: a pair's depends on its batch",
        ),
        Example(
            model=CLIPImageTower(patch=2, **TINY),
            objectives=IMAGE_TASKS,
            returns="what its `head` gives",
            config=WITH_CLIP,
        ),
        Example(
            model=SigLIPImageTower(patch=2, **TINY),
            objectives=IMAGE_TASKS,
            returns="what its `head` gives",
            config=WITH_SIGLIP,
        ),
        Example(
            model=FixedLengthText(vocab=VOCAB, **TINY),
            objectives=TOKEN_TASKS,
            returns="what its `head` gives",
            config=WITH_SIGLIP,
            limits="texts of several lengths: it reads their padding",
        ),
    ),
    presets=(
        Preset(
            build=clip,
            paper="Radford et al. 2021",
            sizes={
                "ViT-B/32": Size(151_277_313),
                "ViT-B/16": Size(149_620_737),
                "ViT-L/14": Size(427_616_513),
                "ViT-L/14@336": Size(427_944_193, inputs=pixels(336)),
            },
            trunk="vision",
            reference="CLIPModel",
        ),
        Preset(
            build=siglip,
            paper="Zhai et al. 2023",
            sizes={
                "base/16-224": Size(203_155_970),
                "large/16-256": Size(652_150_786, inputs=pixels(256)),
                "so400m/14-384": Size(877_960_498, inputs=pixels(384)),
            },
            trunk="vision",
            reference="SiglipModel",
        ),
        Preset(
            build=siglip2,
            paper="Tschannen et al. 2025",
            sizes={
                "base/16-224": Size(375_187_970),
                "so400m/14-384": Size(1_136_008_498, inputs=pixels(384)),
            },
            trunk="vision",
            reference="SiglipModel",
        ),
    ),
    systems=(
        System(
            name="CLIP, SigLIP",
            config="configs/multimodal/clip_captions.py",
            score="37.8% of 98 pictures have their caption among the ten nearest",
            presets=(clip, siglip, siglip2),
            equal_to="[CLIPModel, SiglipModel](tests/interop/test_parity.py)",
            compiled="L/14@336 on v5p:4x4x4",
        ),
    ),
)
