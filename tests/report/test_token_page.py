"""The page of tokens: one file whose texts are escaped, and its weights."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from txjax.data import Bytes
from txjax.report.inspection.attention_sequences import Attended, Sequence
from txjax.report.inspection.attention_summary import Kept
from txjax.report.inspection.examples import Example
from txjax.report.inspection.findings import Findings, Inspection, chosen_of
from txjax.report.inspection.token_page import pack_weights, token_page
from txjax.types import UserError

TEXT = "</script><script>alert(1)</script> & \x1b[31m\u202e"
PATH = "decoder/layers/block/cross"


def found(text: str) -> Findings:
    ids = Bytes().encode(text).astype(np.int32)[None]
    inputs = {"tokens": ids, "source_tokens": ids[:, :3], "source_segments": np.asarray([[1, 1, 0]])}
    own = Attended(PATH, 2, 2, Sequence("tokens", ids.shape[1]), Sequence("source_tokens", 3))
    weights = np.random.default_rng(0).uniform(size=(1, 1, 2, ids.shape[1], 3)).astype(np.float32)
    example = Example(text, inputs, None, dict.fromkeys(("tokens", "source_tokens"), Bytes()))
    seen = Inspection(example, {PATH: own}, {PATH: Kept(weights, None, None)}, None)
    return Findings([seen], {PATH: ((1,), (0, 1))}, [], None)


class Scripts(HTMLParser):
    """The scripts of a page as a browser reads them, and the addresses that it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += [""] if tag == "script" else []
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts[-1] += data


def test_texts_are_escaped_and_the_page_is_alone() -> None:
    findings = found(TEXT)
    page = token_page(findings, TEXT, TEXT)
    read = Scripts()
    read.feed(page)
    assert len(read.scripts) == 2 and not read.addresses and "<script>alert" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    (example,) = json.loads(read.scripts[0])
    (shown,) = example["maps"]
    assert shown["name"] == "decoder/cross" and shown["layers"] == [1] and shown["heads"] == [0, 1]
    assert shown["queries"][:9] == list("</script>") and "\\x1b" in shown["queries"] and "<226>" in shown["queries"]
    assert shown["keys"] == ["<", "/"]  # without the padding
    read_back = np.frombuffer(base64.b64decode(shown["weights"]), np.uint8).reshape(1, 2, -1, 2)
    want = findings.inspections[0].kept[PATH].weights[:, 0, :, :96, :2]
    np.testing.assert_allclose((read_back / 255.0) ** 2, want, atol=4e-3)


def test_the_code_of_the_page_is_small() -> None:
    assert len(token_page(found("ab"), "a", "b")) < 8000


def test_small_weights_keep_a_difference() -> None:
    assert pack_weights(np.asarray([0.0, 0.001, 0.004, 1.0])) == base64.b64encode(bytes([0, 8, 16, 255])).decode()


def test_chosen_layers_and_heads() -> None:
    long, text = Sequence("tokens", 5), Sequence("tokens", 5)
    known = {"a": Attended("a", 30, 2, long, text), "b": Attended("b", 3, 4, long, text)}
    assert chosen_of(known, [-1, 0], [1]) == {"a": ((29, 0), (1,)), "b": ((2, 0), (1,))}
    assert chosen_of(known, [20], None) == {"a": ((20,), (0, 1))}  # the other one has no such layer
    spread = chosen_of(known, None, None)
    assert len(spread["a"][0]) == 12 and spread["a"][0][::11] == (0, 29) and spread["b"][0] == (0, 1, 2)
    with pytest.raises(UserError, match="--layer: expected a number from -30 to 29 or -3 to 2, got 30; of a, b"):
        chosen_of(known, [30], None)
    with pytest.raises(UserError, match="--head: expected a number from -2 to 1 or -4 to 3, got -5"):
        chosen_of(known, None, [-5])
    with pytest.raises(UserError, match="--head: expected a head of an attention that has the chosen --layer"):
        chosen_of(known, [20], [3])
