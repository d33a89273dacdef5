"""Words that must not come back: private terms, where the field has its own (CONTRIBUTING lists both)."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("txjax", "tests", "docs", "configs", "experiments", "benchmarks", "launch")
FILES = [path for folder in FOLDERS for suffix in ("*.py", "*.md") for path in sorted((ROOT / folder).rglob(suffix))]
FILES = [path for path in FILES if ROOT / "docs" / "files" not in path.parents]  # copies that docs/conf.py writes
FILES += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

# In any text, names of tests included: what to write instead.
WORDS = {
    r"(?<![a-z])(told|tells|telling)(?![a-z])": "says, reports, records, explains",
    r"(?<![a-z])(foretold|foretell|foretells)(?![a-z])": "predicted, predict",
    r"(?<![a-z])(nobody|whoever)(?![a-z])": "no one, no process, no caller: name what it is",
    r"(?<![a-z])(goes|go|went|going|gone)[ _]on(?![a-z])": "resumes, continues",
    r"(?<![|:] )\bNone = ": "If None, ...",
    r'"""(Those|That) of ': "start with the noun or the verb",
    r"(?<![a-z])(valleys?|rungs?|ledgers?|leash|the house)(?![a-z])": "isoFLOP profile, ladder run, goodput, child",
}
# Names in code.
NAMES = {
    "held": "variables, params, state",
    "places": "shardings or positions",
    "told": "message, reported",
    "fate": "action",
}
# What no binding of txjax may be called: a name is the noun for what it holds in its place (`scores`, `row`, `leaf`).
PRONOUNS = {"found", "own", "each", "seen", "given", "drawn", "made", "real", "said", "sound", "spare", "tried"}


def bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines and the names that a module binds: variables, arguments, attributes, functions, classes, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.alias(name=name, asname=alias):
                yield node.lineno, alias or name


def offenders(pattern: str) -> list[str]:
    """Lines that a pattern finds, as FILE:NUMBER: LINE. The table of CONTRIBUTING that lists the words is skipped."""
    search = re.compile(pattern, re.IGNORECASE).search
    found = []
    for path in FILES:
        if path != Path(__file__):
            text = path.read_text()
            if path.name == "CONTRIBUTING.md":
                text = re.sub(r"(?ms)^## Words$.*?(?=^## )", lambda section: "\n" * section[0].count("\n"), text)
            lines = enumerate(text.splitlines(), 1)
            found += [f"{path.relative_to(ROOT)}:{i}: {line.strip()[:100]}" for i, line in lines if search(line)]
    return found


def test_words():
    found = {f"{pattern} -> {instead}": offenders(pattern) for pattern, instead in WORDS.items()}
    assert not {words: lines for words, lines in found.items() if lines}


def test_names():
    found = []
    for path in FILES:
        if path.suffix == ".py":
            tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
            found += [
                f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string} -> {NAMES[token.string]}"
                for token in tokens
                if token.type == tokenize.NAME and token.string in NAMES
            ]
    assert not found


def test_bindings():
    pronouns = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "txjax").rglob("*.py"))
        for line, name in bindings(ast.parse(path.read_text()))
        if name.strip("_") in PRONOUNS
    ]
    assert not pronouns


def test_one_binding_a_line():
    """`a, b = x, y` is two lines, but where y is read before a changes."""
    several = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.targets[0])}"
        for path in sorted((ROOT / "txjax").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and binds_several(node)
    ]
    assert not several


def binds_several(node: ast.Assign) -> bool:
    """Whether an assignment is of a tuple's values to a tuple of names, none of which a later value reads."""
    (target, *others), value = node.targets, node.value
    if others or not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
        return False
    names = [name.id for name in target.elts if isinstance(name, ast.Name)]
    if len(names) != len(value.elts) or any(isinstance(part, ast.Starred) for part in value.elts):
        return False
    reads = [{part.id for part in ast.walk(part) if isinstance(part, ast.Name)} for part in value.elts]
    return not any(names[i] in read for i in range(len(names)) for read in reads[i + 1 :])
