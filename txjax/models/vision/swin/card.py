"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.swin.swin import Swin
from txjax.nn import Classes, LayerNorm, MeanTokens, PatchEmbedding, WindowAttention

# Widths, depths and heads of the stages (Liu et al. 2021, 3.3)
SWIN: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (2, 2, 6, 2), (3, 6, 12, 24)),
    "S": ((96, 192, 384, 768), (2, 2, 18, 2), (3, 6, 12, 24)),
    "B": ((128, 256, 512, 1024), (2, 2, 18, 2), (4, 8, 16, 32)),
    "L": ((192, 384, 768, 1536), (2, 2, 18, 2), (6, 12, 24, 48)),
}


def swin(size: str = "T", **fields: Any) -> Swin:
    """The Swin Transformer (Liu et al. 2021): windows of 7 x 7 patches of 4 x 4 pixels, 1,000 classes."""
    style: dict[str, Any] = dict(norm=LayerNorm(eps=1e-5), head=Classes(1000, MeanTokens()))
    return Swin(**dict(stages=stages_of(size, SWIN)) | style | fields)


CARD = Card(
    title="Swin",
    examples=(
        Example(
            model=Swin(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=PatchEmbedding(patch=1),
                mixer=WindowAttention(side=2, shift=1),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/swin_digits.py",
            limits="odd depths other than 1 in Hugging Face's files: every second layer shifts its windows",
        ),
    ),
    presets=(
        Preset(
            build=swin,
            paper="Liu et al. 2021, 3.3",
            remark="of the first to the last stage",
            sizes={
                "T": Size(28_288_354),
                "S": Size(49_606_258),
                "B": Size(87_768_224),
                "L": Size(196_532_476),
            },
            reference="SwinForImageClassification",
        ),
    ),
    systems=(
        System(
            name="Swin",
            config="configs/vision/swin_fashion.py",
            score="85.8%",
            presets=(swin,),
            equal_to="[SwinForImageClassification](tests/interop/test_parity.py)",
            compiled="L on v5e:16x16",
        ),
    ),
)
