"""Files, modules, names of txjax and tests that the docs name exist."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import claims

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# A path may be given from the root, from the package, or from a page's own folder (links).
FOLDERS = ("benchmarks", "configs", "docs", "experiments", "launch", "tests", "txjax", ".ci")
PACKAGES = sorted(path.name for path in (ROOT / "txjax").iterdir() if path.is_dir() and path.name != "__pycache__")
PATH = re.compile(rf"(?<![\w./:{{<-])(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*\w")
INNER = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w./]*\w\.py)")
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
DOTTED = re.compile(r"(?<![\w.])txjax(?:\.[A-Za-z_]\w*)+")
SHORT = re.compile(r"`((?:backend|distributed|nn|sharding|types)\.[A-Za-z_][\w.]*\w)")
IMPORT = re.compile(r"^\s*from (txjax[\w.]*) import \(?([\w, ]+)", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PLACEHOLDERS = ("/x.py", "txjax/commit.json")  # a file of your own, and a file of a launched copy of the code


def missing_paths(page: Path, text: str) -> list[str]:
    named = [*PATH.findall(text), *(f"txjax/{path}" for path in INNER.findall(text))]
    named = [path for path in named if "..." not in path and not path.endswith(PLACEHOLDERS)]
    found = [path for path in named if not (ROOT / path).exists()]
    return found + [path for path in LINK.findall(text) if not (page.parent / path).exists()]


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def missing_names(text: str) -> list[str]:
    names = set(DOTTED.findall(text)) | {f"txjax.{name}" for name in SHORT.findall(text) if not name.endswith(".py")}
    for module, imported in IMPORT.findall(text):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",") if name.strip()}
    return sorted(name for name in names if not exists(name))


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def missing_tests(text: str) -> list[str]:
    return [f"{path}::{name}" for path, name in TEST.findall(text) if name not in functions(ROOT / path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert missing_paths(page, text) + missing_names(text) + missing_tests(text) == []


def test_the_index_lists_every_page() -> None:
    index = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {path.name for path in PAGES[2:]} - {"README.md", "index.md"} <= index


def test_the_table_of_claims_is_fresh() -> None:
    stated = claims.all_claims()
    assert claims.problems(stated) == []
    page = claims.PAGE.read_text()
    assert claims.updated(page, stated) == page, "docs/tests.md is out of date: python tests/claims.py"


def test_mistakes_in_claims() -> None:
    source = """
pytestmark = [pytest.mark.mesh, pytest.mark.claim("Data", "a " "claim"), pytest.mark.claim("Dota", "another")]

@pytest.mark.claim("Evaluation", "a claim")
def test_one(): ...
"""
    stated = list(claims.claims_of(source, "tests/test_x.py"))
    assert stated == [
        ("Data", "a claim", "tests/test_x.py"),
        ("Dota", "another", "tests/test_x.py"),
        ("Evaluation", "a claim", "tests/test_x.py::test_one"),
    ]
    assert claims.problems(stated) == [
        "tests/test_x.py: no section 'Dota' in tests/claims.py",
        "tests/test_x.py::test_one: in 'Evaluation', elsewhere in 'Data': a claim",
    ]
    for arguments in ('"Data"', '"Data", TEXT', '"Data", text="a claim"', '"Data", "a claim", "more"'):
        with pytest.raises(ValueError, match=r"tests/test_x.py:1: expected claim\(section, text\)"):
            list(claims.claims_of(f"pytestmark = pytest.mark.claim({arguments})", "tests/test_x.py"))
