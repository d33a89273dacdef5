"""Which of the tests that are repeated for every family or config run in a change, and which wait for their turn.

A change runs the *cover* (few families that together have every class of `nn` that two or more of them use), families
whose own files changed, and an eighth of all, chosen by the commit's hash. So its cost hardly grows with the number of
families, and every family has run after the eight turns. `--full` or TXJAX_FULL=1 runs all of them, and so does a run
that names tests (`-k`, `FILE::TEST`). TXJAX_COMMIT is a commit whose selection runs here.

    python tests/selection.py    prints the commit, its turn, and the files that count as changed
"""

import ast
import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from txjax import config, tree
from txjax.interop.huggingface import catalog

ROOT = Path(__file__).parents[1]
TURNS = 8
COMMITS = 50  # where the last landed commit is unknown, at most so many commits are a change
HOURS = 4  # and none that is so much older than the newest

OTHERS = "slow tests that are not per family"
SLOW_SECONDS = 20.0  # of a core, on average
SLOW: dict[str, Any] = {"budget": 60.0}  # for those whose files changed


@dataclasses.dataclass(frozen=True)
class Item:
    """One test of a parametrisation.

    Attributes:
      family: several items may be of one.
      files: what the item is made of, relative to the repository. A file that no other family has is its own.
      parts: names of classes, of a config's fields and of its model's imports. Those that two or more families have
        are covered.
      turn: the number of its turn, modulo the turns. If None, it follows from the hash of its name.
    """

    name: str
    family: str = ""
    files: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    turn: int | None = None

    def turn_of(self, turns: int) -> int:
        return turn_of_item(self.name, turns) if self.turn is None else self.turn % turns


@dataclasses.dataclass(frozen=True)
class Selection:
    """Items by the reason why they run, and those that don't."""

    cover: tuple[Item, ...]
    turn: tuple[Item, ...]
    changed: tuple[Item, ...]
    more: tuple[Item, ...]
    left_out: tuple[Item, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self.cover, *self.turn, *self.changed, *self.more)

    def describe(self) -> str:
        reasons = ("cover", "turn", "changed", "more")
        counts = ", ".join(f"{name} {len(getattr(self, name))}" for name in reasons if getattr(self, name))
        whole = len(self.items) + len(self.left_out)
        return f"{len(self.items)} of {whole} ({counts or 'none'}), {len(self.left_out)} left out"


def select(
    items: Iterable[Item],
    cost: Callable[[Item], float],
    changed: set[str],
    commit: str,
    budget: float,
    turns: int = TURNS,
    least: int = 0,
) -> Selection:
    """The cover and the items whose turn it is; up to a budget those that changed; and the next ones if it isn't spent.

    Args:
      cost: seconds of an item.
      changed: names of files.
      commit: its hash, which orders the items.
      budget: seconds for those that changed, whatever else runs; for the next ones, seconds of all.
      turns: after so many commits of different turns every item has run. If 0, there are no turns.
      least: how many items run at least, whatever they cost.
    """
    order = sorted(items, key=lambda item: _digest(f"{commit} {item.name}"))
    cover = greedy_cover(order)
    rest = [item for item in order if item not in cover]
    turn = [item for item in rest if turns and item.turn_of(turns) == turn_of_commit(commit, turns)]
    rest = [item for item in rest if item not in turn]
    users = Counter(file for _, file in {(item.family or item.name, file) for item in order for file in item.files})
    own_files = {file for file, count in users.items() if count == 1}
    touched = [item for item in rest if item.files & own_files & changed]
    chosen: list[Item] = []
    spent = 0.0
    for item in touched:
        if spent + cost(item) <= budget:
            chosen.append(item)
            spent += cost(item)
    more: list[Item] = []
    spent += sum(map(cost, (*cover, *turn)))
    for item in (item for item in rest if item not in chosen):
        if spent + cost(item) <= budget or len(cover) + len(turn) + len(chosen) + len(more) < least:
            more.append(item)
            spent += cost(item)
    return Selection(
        cover=tuple(cover),
        turn=tuple(turn),
        changed=tuple(chosen),
        more=tuple(more),
        left_out=tuple(item for item in rest if item not in chosen and item not in more),
    )


def greedy_cover(items: Sequence[Item]) -> list[Item]:
    """Few items that have every part that two or more families have: the one with most of the missing parts first."""
    users = Counter(part for _, part in {(item.family or item.name, part) for item in items for part in item.parts})
    missing = {part for part, count in users.items() if count > 1}
    cover: list[Item] = []
    by_name = sorted(items, key=lambda item: item.name)  # the same cover for every commit
    while missing:
        best = max(by_name, key=lambda item: len(item.parts & missing))
        cover.append(best)
        missing -= best.parts
    return cover


def turn_of_commit(commit: str, turns: int = TURNS) -> int:
    return int(commit or "0", 16) % turns


def turn_of_item(name: str, turns: int = TURNS) -> int:
    return int(_digest(name), 16) % turns


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# What an item is made of.


def describe_tree(root: Any, *files: Path | str) -> Item:
    """An item of a config or a model: the classes of its tree, and those that the files of its models import.

    Args:
      root: an experiment or a model; nothing is traced.
      files: others that it is made of.
    """
    kinds = {type(node) for _, node in tree.walk(root) if dataclasses.is_dataclass(node)}
    sources = {_relative(Path(file)) for file in (*files, *map(inspect.getfile, kinds))}
    parts = {f"{kind.__name__} as a field" for kind in kinds if kind.__module__.startswith("txjax.nn")}
    for kind in kinds:
        if kind.__module__.startswith("txjax.models"):
            more_files, more_parts = _imports(kind.__module__, r"txjax\.models\.", r"txjax\.nn\b")
            sources |= more_files
            parts |= more_parts
    family = type(getattr(root, "model", root)).__name__
    return Item(family, family, frozenset(filter(None, sources)), frozenset(parts))


@functools.cache
def describe_config(source: str) -> Item:
    """An item of FILE.py[:variant], relative to the repository."""
    return describe_tree(config.load(str(ROOT / source), []), ROOT / source.partition(":")[0])


def describe_class(kind: type) -> Item:
    """An item of a class, with its file."""
    return Item(kind.__name__, kind.__name__, frozenset({_relative(Path(inspect.getfile(kind)))}))


def describe_architecture(name: str) -> Item:
    """An item of a class of Hugging Face's: what the file of its family imports beside it."""
    family = next(type(family) for family in catalog.FAMILIES if name in family.architectures)
    files, parts = _imports(family.__module__, TABLES, TABLES)
    return Item(name, family.__name__, files, parts)


TABLES = r"txjax\.(models\.(\w+\.)+hf_\w+|interop\.huggingface\.shared\.\w+)"  # modules of Hugging Face's names


@functools.cache
def _imports(module: str, package: str, parts_of: str) -> tuple[frozenset[str], frozenset[str]]:
    """The files that a module of `package` is made of, with those of `package` that it imports; and parts.

    Args:
      package, parts_of: regular expressions for the beginning of a module's name.

    Returns:
      files, and the classes and functions of the package `parts_of` that they import, by name.
    """
    source = importlib.import_module(module)
    files, parts = {_relative(Path(inspect.getfile(source)))}, set()
    for node in ast.walk(ast.parse(Path(inspect.getfile(source)).read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if re.match(parts_of, node.module):
            parts |= {alias.name for alias in node.names if alias.name[0].isupper() or parts_of == package}
        if re.match(package, node.module) and node.module != module:
            more_files, more_parts = _imports(node.module, package, parts_of)
            files |= more_files
            parts |= more_parts
    return frozenset(files), frozenset(parts)


def _relative(path: Path) -> str:
    """The path in the repository; "" for one outside."""
    path = path.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""


# What git says.


def git(*words: str) -> str:
    """What git prints, "" where there is no repository."""
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


@functools.cache
def commit() -> str:
    """The hash that orders the items: of HEAD, or TXJAX_COMMIT."""
    return os.environ.get("TXJAX_COMMIT") or git("rev-parse", "HEAD")


@functools.cache
def changed_files() -> frozenset[str]:
    """Files that changed since the last landed commit, committed or not.

    That is the one in which HEAD and `origin/main` meet. Where this is HEAD itself, or unknown, as in a fresh clone of
    what lands, a change is the last commits within a few hours of HEAD.
    """
    if "TXJAX_COMMIT" in os.environ or not git("rev-parse", "HEAD"):
        return frozenset()
    base = git("merge-base", "HEAD", "origin/main")
    if base in ("", git("rev-parse", "HEAD")):
        hour = int(git("log", "-1", "--format=%ct")) - 3600 * HOURS
        recent = git("rev-list", f"--max-count={COMMITS}", f"--since={hour}", "HEAD").split()
        base = f"{recent[-1]}~1" if recent and git("rev-parse", "--verify", "-q", f"{recent[-1]}~1") else "HEAD"
    names = git("diff", "--name-only", base).split("\n") + git("ls-files", "-o", "--exclude-standard").split("\n")
    return frozenset(filter(None, names))


# Pytest.


def per_family(
    argument: str,
    describe: Callable[[Any], Item],
    seconds: float | Callable[[Any], float],
    budget: float = 0.0,
    cover: bool = True,
    turns: int = TURNS,
    least: int = 1,
) -> pytest.MarkDecorator:
    """Marks a test that is parametrised by families or configs, of which a change runs a selection.

    Args:
      argument: the parameter.
      describe: the item of a parameter's value.
      seconds: of a core, of one item or by a parameter's value.
      budget, turns, least: as `select` takes them.
      cover: whether the cover runs; else the turn alone, and what the budget allows.
    """
    settings = {"budget": budget, "turns": turns, "least": least}
    return pytest.mark.per_family(argument, describe, seconds, cover, settings)


def choose(tests: list[pytest.Item]) -> tuple[list[pytest.Item], list[str]]:
    """The tests that a change runs, and lines that say what is left out.

    Slow tests that are not per family have turns, too, and run where their file or its module changed. Those that share
    what is expensive to start share a turn.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for test in tests:
        if test.get_closest_marker("per_family"):
            groups.setdefault(_function(test), []).append(test)
        elif test.get_closest_marker("slow"):
            groups.setdefault(OTHERS, []).append(test)
    left_out: set[pytest.Item] = set()
    lines = []
    for number, (name, members) in enumerate(sorted(groups.items())):
        selection, by_name = _select_tests(members, name == OTHERS, number)
        left_out |= {test for item in selection.left_out for test in by_name[item.name]}
        lines.append(f"{name}: {selection.describe()}")
    if not groups:
        return tests, []
    turn = f"turn {turn_of_commit(commit())} of {TURNS}, commit {commit()[:8] or 'unknown'}"
    lines.append(f"{len(left_out)} of {len(tests)} tests are left out ({turn}); --full runs all")
    return [test for test in tests if test not in left_out], lines


def _select_tests(tests: list[pytest.Item], slow: bool, number: int) -> tuple[Selection, dict[str, list[pytest.Item]]]:
    """The selection of a group of tests, and the tests of each item.

    Args:
      number: of the group; a family's tests in successive groups have successive turns.
    """
    by_name: dict[str, list[pytest.Item]] = {}
    items: dict[str, Item] = {}
    seconds: dict[str, float] = {}
    settings: dict[str, Any] = SLOW
    for test in tests:
        if slow:
            shared = test.get_closest_marker("turn")
            name, cost = shared.args[0] if shared else test.nodeid, SLOW_SECONDS
            path = _relative(test.path)
            item = Item(name, family=path, files=frozenset({path, module_of(path)}))
        else:
            argument, describe, cost, cover, settings = test.get_closest_marker("per_family").args
            value, name = test.callspec.params[argument], test.nodeid
            item = dataclasses.replace(describe(value), name=name, turn=turn_of_item(test.callspec.id) + number)
            item = item if cover else dataclasses.replace(item, parts=frozenset())
            cost = cost(value) if callable(cost) else cost
        by_name.setdefault(name, []).append(test)
        items[name], seconds[name] = item, cost
    return select(items.values(), lambda item: seconds[item.name], set(changed_files()), commit(), **settings), by_name


def module_of(path: str) -> str:
    """The module that a file of tests is about, if it is named as the file: txjax/nn/layers/mlp.py
    of tests/nn/test_mlp.py."""
    _, package, *_, name = Path(path).parts if path.count("/") > 1 else ("", "", path)
    files = (ROOT / "txjax" / package).rglob(name.removeprefix("test_"))
    return next((_relative(file) for file in sorted(files)), "")


def part_of(tests: list[pytest.Item], number: int, parts: int) -> list[pytest.Item]:
    """One of several parts of the tests, by the hash of their file or, of tests that are per family, of each test."""

    def key(test: pytest.Item) -> str:
        return test.nodeid if test.get_closest_marker("per_family") else str(_relative(test.path))

    return [test for test in tests if turn_of_item(key(test), parts) == number - 1]


def _function(test: pytest.Item) -> str:
    return test.nodeid.partition("[")[0]


if __name__ == "__main__":
    print(f"commit {commit() or 'unknown'}, turn {turn_of_commit(commit())} of {TURNS}")
    print("\n".join(sorted(changed_files())) or "nothing changed")
