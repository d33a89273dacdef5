"""Layers of packages: imports are of lower layers only."""

import ast
import functools
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "txjax"
LAYERS = [
    {"aliases", "lazy_names"},
    {"errors"},
    {"types", "scoped", "terminal_escape", "numbers", "ranking", "plugins", "cpu", "axes", "memory_errors"},
    {"io", "chips", "patterns", "checks", "user_code", "field_values", "shipped_configs"},
    {"tree", "modules", "sharding", "log", "backend", "distributed", "parametrization"},
    {"components", "component_text", "nn", "data", "optim", "flops"},
    {"overrides", "models", "objectives", "decoding", "checkpoint", "transfer"},
    {"config", "eval", "changes"},
    {"experiment"},
    {"train", "interop"},
    {"plan", "sweep", "mup"},
    {"scaling"},
    {"report"},
    {"cli"},
    {"commands"},
    {"python"},
    {"__main__"},
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def is_table(path: Path) -> bool:
    """Whether a file is a model's table of Hugging Face's names, which only `interop/huggingface/catalog.py` reads."""
    return path.name.startswith("hf_")


def package(path: Path) -> str:
    """The package of a file; tables are a part of interop."""
    return "interop" if is_table(path) else path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def imports(path: Path) -> set[str]:
    """Full names of all imports of a file, also inside functions."""
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
    root, _, there = imported.partition(".")
    there = there.partition(".")[0]
    if root != "txjax" or there not in LAYER:
        return False
    if here == "__init__":  # whose imports are for type checkers alone
        return there != "python"
    return there != here and LAYER[there] >= LAYER[here]


def test_imports_only_go_down():
    assert not [f"{name(path)} imports {x}" for path in MODULES for x in imports(path) if goes_up(package(path), x)]


def module_file(imported: str) -> Path | None:
    """The file of an imported name: of a module, or of the module that the name is in. None for a package."""
    parts = imported.split(".")[1:]
    files = [PACKAGE.joinpath(*parts[:count]).with_suffix(".py") for count in (len(parts), len(parts) - 1) if count]
    return next((file for file in files if file.is_file()), None)


def test_no_two_folders_import_each_other():
    arrows: dict[tuple[Path, Path], str] = {}
    for path in MODULES:
        if path.name == "__init__.py" or is_table(path):
            continue
        for imported in imports(path):
            there = module_file(imported) if imported.startswith("txjax.") else None
            assert there is None or not is_table(there), f"{name(path)} imports the table {imported}"
            if there and PACKAGE not in (path.parent, there.parent) and path.parent != there.parent:
                arrows[path.parent, there.parent] = f"{name(path)} imports {name(there)}"
    assert not [(arrow, arrows[b, a]) for (a, b), arrow in arrows.items() if a < b and (b, a) in arrows]


def test_every_package_has_a_layer():
    assert {package(path) for path in MODULES} - {"__init__"} == set(LAYER)


def test_only_model_packages_import_linen():
    others = [path for path in MODULES if package(path) not in ("nn", "models")]
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


def test_every_package_is_tested_on_another_python():
    """`.ci/run` runs the files of this list on the newest Python that it finds."""
    tests = PACKAGE.parent / "tests"
    files = [Path(line) for line in (tests / "one_of_each_package.txt").read_text().split()]
    assert not [path for path in files if not (tests.parent / path).is_file()]
    packages = {path.parent.name for path in tests.glob("*/test_*.py")}
    assert packages == {path.parent.name for path in files} - {"tests"}


def test_file_names_are_unique():
    """A file name says which: no two modules share one, but for a command and the one module that it runs, and the
    files that every family of models has."""
    folders_of: dict[str, list[str]] = {}
    for path in MODULES:
        folders_of.setdefault(path.name, []).append(path.relative_to(PACKAGE).parent.as_posix())
    del folders_of["__init__.py"]

    def may_share(folders: list[str]) -> bool:
        commands = [folder for folder in folders if folder.split("/")[0] == "commands"]
        return all(folder.startswith("models/") for folder in folders) or (len(folders) == 2 and len(commands) == 1)

    shared = {name: folders for name, folders in folders_of.items() if len(folders) > 1}
    assert not {name: folders for name, folders in shared.items() if not may_share(folders)}
