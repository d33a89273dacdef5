"""Examples of the reference: programs of a few lines in `docs/examples/PACKAGE/`, which show the names of that package.

A file runs alone, in any folder. Its docstring is the heading, and a text below it if there are more lines. Comments
beside a `print` and below it are what it prints (`tests/test_examples.py`).
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

from public_names import PublicName

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COMMENT = re.compile(r"(?:^|  )# (.*)$")


class Example(NamedTuple):
    """A program: its heading, the text below it, its code without the docstring, and the dotted names in it."""

    title: str
    text: str
    code: str
    names: frozenset[str]

    def anchor(self) -> str:
        """The anchor of its heading, as MyST makes it."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    def shows(self, name: PublicName) -> bool:
        """Whether its code has the name, imported from its public module."""
        return f"{name.module}.{name.name}" in self.names


def dotted_names(tree: ast.Module) -> frozenset[str]:
    """All names of packages that the code has behind its imports, in full: `txjax.nn.Mask`, `txjax.sweep.zip`."""
    origins = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                origins |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case ast.Import(names=names):
                origins |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in names}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            head, dot, rest = ast.unparse(node).partition(".")
            names.add(origins.get(head, "") + dot + rest)
    return frozenset(names)


def read_example(path: Path) -> Example:
    """The example in a file."""
    source = path.read_text()
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or path.stem).partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip()
    return Example(title.rstrip("."), text.strip(), code, dotted_names(tree))


def paths_of(module: str) -> list[Path]:
    """The files with the examples of a package."""
    return sorted((EXAMPLES / module).glob("*.py"))


def printed_lines(code: str) -> list[str]:
    """What an example says that it prints: the comments beside each `print` and in the lines below it."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    prints = [call for call in calls if ast.unparse(call.func) == "print"]
    printing = {number for call in prints for number in range(call.lineno, (call.end_lineno or 0) + 1)}
    lines: list[str] = []
    is_output = False
    for number, line in enumerate(code.splitlines(), 1):
        comment = COMMENT.search(line.strip())
        has_code = bool(COMMENT.sub("", line).strip())
        is_output = number in printing if has_code else is_output and comment is not None
        if is_output and comment:
            lines.append(comment[1])
    return lines
