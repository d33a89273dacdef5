"""Imports only go down."""

import ast
import functools
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "txjax"
FLOORS = [
    {"types", "files", "visible", "libtpu"},
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


@functools.cache
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


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def goes_up(here: str, imported: str) -> bool:
    """Whether a file of the package `here` may not import this name."""
    package, _, there = imported.partition(".")
    there = there.partition(".")[0]
    if package != "txjax" or there not in FLOOR:
        return False
    return here == "__init__" or there != here and FLOOR[there] >= FLOOR[here]


def test_imports_only_go_down():
    assert not [f"{name(path)} imports {x}" for path in MODULES for x in imports(path) if goes_up(room(path), x)]


def test_every_room_has_a_floor():
    assert {room(path) for path in MODULES} - {"__init__"} == set(FLOOR)


def test_only_the_model_rooms_know_linen():
    others = [path for path in MODULES if room(path) not in ("nn", "models")]
    assert not [name(path) for path in others if any(x.startswith("flax.linen") for x in imports(path))]


def test_nothing_that_runs_code_from_files_is_imported():
    banned = ("pickle", "cloudpickle", "joblib", "dill", "torch", "tensorflow")
    processes = ("joblib.Parallel", "joblib.delayed")  # of joblib, only what starts processes, not what reads files
    found = [(name(p), x) for p in MODULES for x in imports(p) if x.split(".")[0] in banned and x not in processes]
    assert not found
    for words in ("allow_pickle=True", "trust_remote_code=True"):
        assert not [name(path) for path in MODULES if words in path.read_text()]


def test_files_are_small():
    long = {name(p): n for p in MODULES if (n := len(p.read_text().splitlines())) > 300}
    assert not long


def test_every_room_is_tried_on_another_python():
    """`.ci/run` runs the files of this list on the newest Python that it finds."""
    tests = PACKAGE.parent / "tests"
    files = [Path(line) for line in (tests / "one_of_each_room.txt").read_text().split()]
    assert not [path for path in files if not (tests.parent / path).is_file()]
    rooms = {path.parent.name for path in tests.glob("*/test_*.py")}
    assert rooms == {path.parent.name for path in files} - {"tests"}
