"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from collections.abc import Mapping
from typing import Any

from txjax.models.cards import CLASSES, TOKEN_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.multimodal.llava.llava import LLaVA
from txjax.models.multimodal.llava.projectors import LinearProjector
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.multimodal.two_towers.card import clip, pixels
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.decoder.card import LLAMA
from txjax.models.text.decoder.decoder import llama
from txjax.nn import ObjectBoxes, Stack

SIZES = {size: LLAMA[size] for size in ("7B", "13B")}


def llava10(size: str = "7B", tower: Mapping[str, Any] | None = None, **fields: Any) -> LLaVA:
    """LLaVA (Liu et al. 2023a): a linear layer from CLIP ViT-L/14, of 256 patches, to Vicuna.

    The vocabulary is Llama's, of which `<unk>`, 0, stands for a patch: no text has it. Files of Hugging Face have 64
    tokens more, and other image tokens: `vocab=32064, image_token=32000`.

    Args:
      tower: fields of the tower, such as `dtype`.
    """
    return _llava(size, "ViT-L/14", tower, dict(projector=LinearProjector()) | fields)


def llava15(size: str = "7B", tower: Mapping[str, Any] | None = None, **fields: Any) -> LLaVA:
    """LLaVA 1.5 (Liu et al. 2023b): two layers from CLIP ViT-L/14 at 336 pixels, of 576 patches, to Vicuna 1.5.

    The vocabulary is that of `llava10`.

    Args:
      tower: fields of the tower, such as `dtype`.
    """
    return _llava(size, "ViT-L/14@336", tower, fields)


def _llava(size: str, tower_size: str, tower: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> LLaVA:
    """Vicuna, which has Llama's sizes, with CLIP's tower of images up to its last layer but one."""
    language: dict[str, Any] = dict(vocab=32000) | dimensions_of(size, SIZES)
    features: dict[str, Any] = dict(stack=Stack(outputs=(-2,)), head=None) | dict(tower or {})
    vision = clip(tower_size).vision.clone(**features)
    return LLaVA.of(llama(**language), vision=vision, image_token=0).clone(**fields)


CARD = Card(
    title="LLaVA",
    examples=(
        Example(
            model=LLaVA(
                vocab=VOCAB,
                width=8,
                depth=2,
                heads=2,
                image_token=VOCAB - 1,
                vision=CLIPImageTower(patch=2, width=4, depth=3, heads=2, stack=Stack(outputs=(-2,))),
            ),
            objectives=TOKEN_TASKS | {"NextToken": None, "SetPrediction": ObjectBoxes(CLASSES)},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]`",
            config="configs/multimodal/llava_canvases.py",
        ),
    ),
    presets=(
        Preset(
            build=llava10,
            paper="Liu et al. 2023a",
            remark="CLIP ViT-L/14, one linear layer, Vicuna",
            sizes={"7B": Size(7_045_793_792), "13B": Size(13_324_292_096)},
        ),
        Preset(
            build=llava15,
            paper="Liu et al. 2023b",
            remark="CLIP ViT-L/14 at 336 pixels, two linear layers, Vicuna 1.5",
            sizes={
                "7B": Size(7_062_902_784, "7,063,427,072 in files, with 64 tokens more", inputs=pixels(336)),
                "13B": Size(13_350_839_296, "13,351,494,656 in files", inputs=pixels(336)),
            },
            reference="LlavaForConditionalGeneration",
        ),
    ),
    systems=(
        System(
            name="LLaVA",
            config="configs/multimodal/llava_canvases.py",
            score="not run; trained as LLaVA 1.5",
            presets=(llava10,),
            equal_to="[the paper's formula](tests/multimodal/test_llava.py)",
            compiled="as LLaVA 1.5, with more patches",
        ),
        System(
            name="LLaVA 1.5",
            config="configs/multimodal/llava_canvases.py",
            score="84.8% of questions about canvases (56.6% with shuffled images)",
            presets=(llava15,),
            equal_to="[LlavaForConditionalGeneration](tests/interop/test_llava_generation.py)",
            compiled="7B on v5e:8x8, 13B on v5p:4x4x4",
        ),
    ),
)
