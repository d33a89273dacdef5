"""Every test that docs/reliability.md names for a promise exists."""

import ast
import re

import pytest

DOCS = ["docs/reliability.md"]


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


@pytest.mark.parametrize("doc", DOCS)
def test_every_named_test_exists(root, doc):
    found = named((root / doc).read_text())
    assert len(found) > 40
    for path, name in set(found):
        functions = [node for node in ast.parse((root / path).read_text()).body if isinstance(node, ast.FunctionDef)]
        assert name in {function.name for function in functions}, f"{doc} names {path}::{name}"


def test_every_promise_and_fault_names_a_test(root):
    rows = [line for line in (root / DOCS[0]).read_text().splitlines() if line.startswith("| ") and "---" not in line]
    listed = [row for row in rows if not row.startswith(("| | promise", "| fault |"))]
    assert sum(row.split("|")[1].strip().isdigit() for row in listed) == 10
    assert len(listed) > 35
    assert [row for row in listed if not named(row)] == []
