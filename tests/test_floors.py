"""Imports only go down."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "txjax"
FLOORS = [
    {"types", "files", "visible", "libtpu", "cpu"},
    {"tree", "modules", "sharding", "log", "digest", "disk", "backend", "processes", "parametrization"},
    {"components", "nn", "data", "optim", "scaling"},
    {"config", "models", "objectives", "checkpoint", "transfer"},
    {"eval"},
    {"experiment"},
    {"train", "interop"},
    {"plan", "sweep"},
    {"commands"},
    {"__main__"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Full names of all that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    here = room(path)
    if here == "__init__":
        assert not {name for name in imports(path) if name.startswith("txjax.")}
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "txjax" or len(parts) < 2 or parts[1] not in FLOOR:
            continue
        there = parts[1]
        assert there == here or FLOOR[there] < FLOOR[here], (
            f"{here} (floor {FLOOR[here]}) imports {name} (floor {FLOOR[there]})"
        )


def test_every_room_has_a_floor():
    assert {room(path) for path in MODULES} - {"__init__"} == set(FLOOR)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_model_rooms_know_linen(path):
    if room(path) not in ("nn", "models"):
        assert not [name for name in imports(path) if name.startswith("flax.linen")]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_that_runs_code_from_files_is_imported(path):
    banned = ("pickle", "cloudpickle", "joblib", "dill", "torch", "tensorflow")
    processes = ("joblib.Parallel", "joblib.delayed")  # of joblib, only what starts processes, not what reads files
    assert not [name for name in imports(path) if name.split(".")[0] in banned and name not in processes]
    source = path.read_text()
    assert "allow_pickle=True" not in source and "trust_remote_code=True" not in source


def test_files_are_small():
    long = {str(p.relative_to(PACKAGE)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 300}
    assert not long


def test_every_room_is_tried_on_another_python():
    """`.ci/run` runs the files of this list on the newest Python that it finds."""
    tests = PACKAGE.parent / "tests"
    files = [Path(line) for line in (tests / "one_of_each_room.txt").read_text().split()]
    assert not [path for path in files if not (tests.parent / path).is_file()]
    rooms = {path.parent.name for path in tests.glob("*/test_*.py")}
    assert rooms == {path.parent.name for path in files} - {"tests"}
