"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import Card, Example, Preset, Size
from txjax.models.vision.vq_tokenizer.vq_tokenizer import VQTokenizer
from txjax.nn import GroupNorm


def vq_tokenizer(**fields: Any) -> VQTokenizer:
    """MaskGIT's tokenizer (Chang et al. 2022, 4.1): a token has 16 x 16 pixels, and there are 1,024 codes."""
    return VQTokenizer(**dict(width=128, depth=2, codes=1024) | fields)


CARD = Card(
    title="a VQ tokenizer of images",
    examples=(
        Example(
            model=VQTokenizer(
                width=4, depth=1, multipliers=(1, 2), codes=5, code_size=3, channels=1, norm=GroupNorm(groups=2)
            ),
            objectives={"VQReconstruction": None},
            returns="`nn.Quantised`: the decoded image, features, codes and tokens `[B h w]`",
            config="configs/vision/vq_tiny.py",
        ),
    ),
    presets=(
        Preset(
            build=vq_tokenizer,
            paper="Chang et al. 2022, 4.1",
            remark="widths of 128 to 512, two blocks each; 1,024 codes of 256 numbers, without the discriminator",
            sizes={"": Size(54_433_667)},
        ),
    ),
)
