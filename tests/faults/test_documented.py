"""Every test that the docs name as the proof of a promise is there."""

import ast
import re

import pytest

DOCS = ["docs/reliability.md"]


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


@pytest.mark.parametrize("doc", DOCS)
def test_every_test_that_is_named_is_there(root, doc):
    found = named((root / doc).read_text())
    assert len(found) > 40
    for path, name in set(found):
        functions = [node for node in ast.parse((root / path).read_text()).body if isinstance(node, ast.FunctionDef)]
        assert name in {function.name for function in functions}, f"{doc} names {path}::{name}"


def test_every_promise_and_every_fault_names_one(root):
    rows = [line for line in (root / DOCS[0]).read_text().splitlines() if line.startswith("| ") and "---" not in line]
    told = [row for row in rows if not row.startswith(("| | promise", "| fault |"))]
    assert sum(row.split("|")[1].strip().isdigit() for row in told) == 10
    assert len(told) > 35
    assert [row for row in told if not named(row)] == []
