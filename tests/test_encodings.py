"""Text has an encoding that does not depend on the locale: every call that reads or writes text names it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("txjax", "launch", "experiments", "configs", "benchmarks")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def reads_text(call: ast.Call) -> bool:
    """Whether a call reads or writes text, as far as its syntax shows."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    method = isinstance(call.func, ast.Attribute)
    if name in ("read_text", "write_text"):
        return method
    if name in ("FileHandler", "TextIOWrapper"):
        return len(call.args) < 2
    if name in ("open", "fdopen", "NamedTemporaryFile"):
        position = 0 if method or name == "NamedTemporaryFile" else 1
        mode = keywords.get("mode", call.args[position] if len(call.args) > position else None)
        default = "rb" if method or name == "NamedTemporaryFile" else "r"  # a method `open` may be another thing
        value = default if mode is None else getattr(mode, "value", "rb")
        return isinstance(value, str) and set(value) <= set("rwaxt+")
    return bool({"text", "universal_newlines"} & set(keywords)) and name in ("run", "Popen", "check_output", "call")


def unnamed(source: str) -> list[int]:
    """The lines of calls that read or write text and name no encoding."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if reads_text(call) and "encoding" not in {k.arg for k in call.keywords}]


def test_every_call_names_the_encoding():
    calls = {str(path.relative_to(ROOT)): unnamed(path.read_text(encoding="utf-8")) for path in FILES}
    assert not {path: lines for path, lines in calls.items() if lines}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("path.read_text()", 1),
        ("path.read_text(encoding='utf-8')", 0),
        ("path.write_text(text)", 1),
        ("open(path)", 1),
        ("open(path, 'rb')", 0),
        ("open(path, mode='a')", 1),
        ("path.open('w')", 1),
        ("path.open('wb')", 0),
        ("data.open()", 0),
        ("tracker.open(workdir, 3)", 0),
        ("logging.FileHandler(path)", 1),
        ("subprocess.run(words, text=True)", 1),
        ("subprocess.run(words, encoding='utf-8')", 0),
    ],
)
def test_calls_that_read_text(line, count):
    assert len(unnamed(line)) == count
