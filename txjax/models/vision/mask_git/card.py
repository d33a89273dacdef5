"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import Card, Preset, Size, System
from txjax.models.published_sizes import look_up
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.mask_git.mask_git import mask_git as bert_of_codes

# Tokens of an image, by its side in pixels (Chang et al. 2022, 4.1)
MASK_GIT: dict[str, int] = {"256": 16 * 16, "512": 32 * 32}


def mask_git(size: str = "256", **fields: Any) -> Bert:
    """MaskGIT (Chang et al. 2022, 4.1), for 1,000 classes. The authors' code has 16 heads, the paper 8."""
    patches = look_up(size, MASK_GIT)
    style: dict[str, Any] = dict(codes=1024, classes=1000, patches=patches, width=768, depth=24, heads=8)
    return bert_of_codes(**style | fields)


CARD = Card(
    title="MaskGIT",
    presets=(
        Preset(
            build=mask_git,
            paper="Chang et al. 2022, 4.1",
            remark="1,024 codes, 1,000 classes and the mask",
            sizes={
                "256": Size(172_457_193, "257 positions"),
                "512": Size(173_047_017, "1,025 positions"),
            },
        ),
    ),
    systems=(
        System(
            name="MaskGIT, its tokenizer",
            config="configs/vision/maskgit_tiny.py",
            score="95% of its digits, 88% of its clothes recognised",
            presets=(mask_git,),
            equal_to="[BertForMaskedLM](tests/models/test_mask_git.py), "
            "[the formulas in numpy](tests/models/test_vq_tokenizer.py)",
            compiled="512 on v5e:8x8",
        ),
    ),
)
