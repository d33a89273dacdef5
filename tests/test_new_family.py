"""A family is a folder and a config: `tests/made_family` in a copy of the tree, where no other file is edited."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from family_tables import TABLES

from txjax.log import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim(
        "Models and objectives",
        "a new family is its folder and a config: contracts, counts, tables and commands find it",
    ),
]

ROOT = Path(__file__).parents[1]
COPIED = ("README.md", "pyproject.toml", "configs", "docs", "experiments", "tests", "txjax")
FOLDER = Path("txjax/models/multimodal/matcher")
CONFIG = Path("configs/multimodal/matcher_digits.py")
TESTS = (
    "tests/test_contracts.py",
    "tests/test_family_tables.py",
    "tests/test_layers.py",
    "tests/models/test_cards.py",
    "tests/models/test_counts.py",
)
NAMES = "Glimpses or Matcher or matcher or partners or fresh or test_cards or test_layers"


def files_of(tree: Path) -> set[str]:
    """The files that a tree has of what the copy has."""
    paths = {path for name in COPIED for path in (tree / name, *(tree / name).rglob("*")) if path.is_file()}
    return {path.relative_to(tree).as_posix() for path in paths if "__pycache__" not in path.parts}


def python(tree: Path, *words: str) -> str:
    """What Python prints with the package of the copy."""
    variables = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the family, whose tables are written."""
    copy = tmp_path_factory.mktemp("tree")
    for name in files_of(ROOT):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    family = ROOT / "tests" / "made_family"
    (copy / FOLDER).mkdir()
    (copy / FOLDER / "__init__.py").write_text('"""A matcher of captions and images."""\n')
    for name in ("card.py", "matcher.py"):
        shutil.copy(family / name, copy / FOLDER / name)
    module = ".".join((*FOLDER.parts, "matcher"))
    config = (family / CONFIG.name).read_text()
    (copy / CONFIG).write_text(config.replace("from matcher import", f"from {module} import"))
    python(copy, "tests/family_tables.py")
    return copy


def test_no_shared_file_is_edited(tree: Path) -> None:
    """New are the folder and the config; changed are pages whose tables are written, and nothing else."""
    before, after = files_of(ROOT), files_of(tree)
    files = {(FOLDER / name).as_posix() for name in ("__init__.py", "card.py", "matcher.py")}
    assert after - before == {*files, CONFIG.as_posix()} and not before - after
    changed = {name for name in before if not filecmp.cmp(ROOT / name, tree / name, shallow=False)}
    assert changed == {"docs/what_works.md", "docs/models.md", "docs/sizes.md"}
    assert changed <= set(TABLES)


def test_tables_have_it(tree: Path) -> None:
    assert '| `matcher.card.matcher("S")` | 16, 2, 2 | 20,850 |' in (tree / "docs" / "sizes.md").read_text()
    assert "| `Matcher` | `image [B H W C]`, `tokens [B L]`" in (tree / "docs" / "models.md").read_text()
    assert "a matcher of captions, " in (tree / "docs" / "what_works.md").read_text()


def test_contracts_and_counts_have_it(tree: Path) -> None:
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", "--full", "-v", "-m", "not slow", "-k", NAMES)
    lines = [line.partition(" PASSED") for line in python(tree, *words, *TESTS).splitlines()]
    passed = {test.partition("::")[2] for test, end, _ in lines if end}
    objectives = ("Classification", "Regression", "Spans", "TokenClassification")
    assert {f"test_pair[Matcher {objective}]" for objective in objectives} <= passed
    assert {f"test_published_counts[matcher {size}]" for size in "SM"} <= passed
    assert {"test_each_has_partners", "test_no_other_pair_suits[Matcher]"} <= passed
    assert {"test_tables_of_families_are_fresh[docs/sizes.md]", "test_imports_only_go_down"} <= passed


def test_commands_have_it(tree: Path) -> None:
    python(tree, "-m", "txjax", "train", f"--config={CONFIG}", "--workdir=run", "--until=1", "--config.evals={}")
    manifest = json.loads((tree / "run" / "manifest.json").read_text())
    assert manifest["parameters"] > 10_000
    assert [row["step"] for row in read_metrics(tree / "run")] == [1]
