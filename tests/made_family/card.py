"""The family's card: `tests/test_new_family.py` puts it into the folder txjax/models/multimodal/matcher of a copy."""

from typing import Any

from txjax.models.cards import CLASSES, EXAMPLE_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.multimodal.matcher.matcher import Glimpses, Matcher
from txjax.models.published_sizes import look_up
from txjax.models.text.bert.bert import Bert
from txjax.nn import Learned, ObjectBoxes, StartEnd, TokenClasses
from txjax.types import spec

WIDTHS = {"S": 16, "M": 32}


def matcher(size: str = "S", **fields: Any) -> Matcher:
    """The matcher of captions of eight bytes."""
    width = look_up(size, WIDTHS)
    image = Glimpses(width=width)
    text = Bert(vocab=256, width=width, depth=1, heads=2, head=None, positions=Learned(max_length=8))
    return Matcher(**dict(image=image, text=text, width=width, depth=2, heads=2) | fields)


CARD = Card(
    title="a matcher of captions",
    examples=(
        Example(
            model=Glimpses(width=8),
            objectives={},
            returns="`nn.Encoded` of the places",
            config="configs/multimodal/matcher_digits.py",
        ),
        Example(
            model=Matcher(
                image=Glimpses(width=8),
                text=Bert(vocab=VOCAB, width=8, depth=1, heads=2, head=None),
                width=8,
                depth=1,
                heads=2,
            ),
            objectives=EXAMPLE_TASKS
            | {"SetPrediction": ObjectBoxes(CLASSES), "Spans": StartEnd(), "TokenClassification": TokenClasses(VOCAB)},
            returns="what its `head` gives",
            config="configs/multimodal/matcher_digits.py",
        ),
    ),
    presets=(
        Preset(
            build=matcher,
            paper="made for the tests",
            sizes={
                "S": Size(20_850),
                "M": Size(72_418),
            },
            inputs={"image": spec((1, 8, 8, 1), "float32")},
        ),
    ),
    systems=(
        System(
            name="Matcher",
            config="configs/multimodal/matcher_digits.py",
            score="not measured",
            presets=(matcher,),
            equal_to="nothing",
            compiled="M on one device",
        ),
    ),
)
