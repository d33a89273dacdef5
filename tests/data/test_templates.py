"""Texts by format strings: what a record becomes, and strings that don't suit the set."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from txjax import config
from txjax.data.text.templates import Template
from txjax.data.tfds.records import Records
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Data",
    "texts by format strings over features, and bad ones; long and empty pairs are counted",
)

TYPES = tfds.features
FEATURES = TYPES.FeaturesDict(
    {
        "first": TYPES.Text(),
        "second": TYPES.Text(),
        "kind": TYPES.ClassLabel(names=["bad", "good"]),
        "score": np.float32,
        "many": TYPES.Tensor(shape=(2,), dtype=np.float32),
        "words": TYPES.Sequence(TYPES.Text()),
    }
)
RECORD = {"first": "über".encode(), "second": b"", "kind": np.int64(1), "score": np.float32(3.75)}


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("{first}", {}, "über"),
        ("say sentence1: {first} sentence2: {second}", {}, "say sentence1: über sentence2: "),
        ("{kind}", {}, "good"),
        ("{score:.1f}", {}, "3.8"),
        ("{{{first}}} {score}", {}, "{über} 3.75"),
        ("say: {second}", {}, ""),
        ("{kind}", {"kind": np.int64(-1)}, ""),
        ("{first} is {kind}", {"kind": np.int64(-1)}, "über is "),
    ],
)
def test_the_text_of_a_record(text, more, expected):
    assert Template(text, FEATURES, "data.source_text")(RECORD | more) == expected


def test_a_feature_alone_has_its_name():
    """So that its tokens are those that other data sets of the feature have in the cache."""
    assert Template("{first}", FEATURES, "data.source_text").feature == "first"
    assert Template("{first} ", FEATURES, "data.source_text").feature == "{first} "
    assert Template("{first} {kind} {first}", FEATURES, "data.source_text").names == ("first", "kind")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("to German: {frist}", r"got 'frist'; did you mean first"),
        ("first", r"a feature in braces.*, got 'first'; '\{first\}' is that feature"),
        ("to German: ", r"a feature in braces, such as '\{text\}', got 'to German: '$"),
        ("to German: {first", r"a format string such as .*expected '}'"),
        ("{}", r"a feature of kind Text or ClassLabel or .* got ''"),
        ("{first[0]}", r"a feature of kind .*did you mean first"),
        ("{words}", r"a feature of kind .*got 'words'"),
        ("{first:.1f}", r"\{first\} without a format, since it is no number, got '\{first:\.1f\}'"),
        ("{kind:>4}", r"\{kind\} without a format"),
        ("{score:.1q}", r"a format of a number, such as \{score:\.1f\}, got '\.1q'"),
        ("{many}", r"one number as \{many\}, got 'an array of shape \[2\]'"),
    ],
)
def test_bad_format_strings_name_the_field(text, message):
    with pytest.raises(UserError, match=message) as error:
        Template(text, FEATURES, "data.source_text")
    assert error.value.field == "data.source_text" and "\n" not in str(error.value)


def test_tasks_of_real_sets(root, tfds_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tfds_dir))
    parts = config.load(str(root / "configs/text/t5_tiny.py"), []).data.parts
    found = {}
    for task, part in parts.items():
        source, target = part.templates()
        record = Records(part.name, part.split, None, {*source.names, *target.names})[1]
        found[task] = source(record), target(record)
    assert found["translation"][0] == (
        "translate English to German: Graying white man with glasses, uses blacksmith tools."
    )
    assert found["cola"] == ("cola sentence: Her efficient looking up of the answer pleased the boss.", "acceptable")
    assert found["stsb"][0].startswith("stsb sentence1: A women sitting") and found["stsb"][1] == "2.6"
