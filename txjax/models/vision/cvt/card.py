"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.cvt.cvt import CvT
from txjax.nn import (
    Classes,
    FirstToken,
    NormedConvEmbedding,
)

# Widths, depths and heads (Wu et al. 2021, table 2)
CVT: dict[str, tuple[tuple[int, ...], ...]] = {
    "13": ((64, 192, 384), (1, 2, 10), (1, 3, 6)),
    "21": ((64, 192, 384), (1, 4, 16), (1, 3, 6)),
    "W24": ((192, 768, 1024), (2, 2, 20), (3, 12, 16)),
}


def cvt(size: str = "13", **fields: Any) -> CvT:
    """The Convolutional vision Transformer (Wu et al. 2021): 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, FirstToken()))
    return CvT(**dict(stages=stages_of(size, CVT)) | style | fields)


CARD = Card(
    title="CvT",
    examples=(
        Example(
            model=CvT(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=NormedConvEmbedding(side=3, stride=1, padding=1),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/cvt_fashion.py",
            limits="microbatches without a `group` of its batch normalization",
        ),
    ),
    presets=(
        Preset(
            build=cvt,
            paper="Wu et al. 2021, table 2",
            sizes={
                "13": Size(19_997_480),
                "21": Size(31_622_696),
                "W24": Size(277_196_392),
            },
            reference="CvtForImageClassification",
        ),
    ),
    systems=(
        System(
            name="CvT",
            config="configs/vision/cvt_fashion.py",
            score="87.4%",
            presets=(cvt,),
            equal_to="[CvtForImageClassification](tests/interop/test_parity.py)",
            compiled="W24 on v5e:16x16",
        ),
    ),
)
