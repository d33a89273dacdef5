"""Which tests a change runs: selection.py, on made-up items, on the families of this repository, and by pytest."""

import dataclasses
import os
import subprocess
import sys

import pytest
from test_families import families

from selection import (
    TURNS,
    Item,
    describe_architecture,
    describe_config,
    greedy_cover,
    module_of,
    select,
    turn_of_commit,
)

pytestmark = pytest.mark.claim(
    "Tests", "what is repeated for every family runs for a cover, for changed families and in turns; all within eight"
)

HASHES = [f"{number:040x}" for number in range(0xABC0, 0xABC0 + TURNS)]  # one of each turn
ITEMS = [
    Item("a", "a", frozenset({"a.py", "base.py"}), frozenset({"Conv", "Norm", "Alone"})),
    Item("b", "b", frozenset({"b.py", "base.py"}), frozenset({"Conv", "Attention"})),
    Item("c", "c", frozenset({"c.py", "base.py"}), frozenset({"Norm", "Attention"})),
    *(Item(f"d{i}", "d", frozenset({"d.py", "base.py"}), frozenset({"Conv", "Twice"})) for i in range(20)),
]


def choose(changed: set[str] = frozenset(), commit: str = HASHES[0], budget: float = 0, **settings: int):
    return select(ITEMS, lambda item: 1.0, changed, commit, budget, **settings)


def names(items: tuple[Item, ...]) -> set[str]:
    return {item.name for item in items}


def test_the_cover_has_what_two_families_have():
    assert [item.name for item in greedy_cover(ITEMS)] == ["a", "b"]  # "Alone" and "Twice" are of one family each
    for commit in HASHES:
        assert names(choose(commit=commit).cover) == {"a", "b"}


def test_every_item_has_its_turn_within_eight_hashes():
    assert {turn_of_commit(commit) for commit in HASHES} == set(range(TURNS))
    runs = [names(choose(commit=commit).items) for commit in HASHES]
    assert set.union(*runs) == names(ITEMS) and all(len(run) < 12 for run in runs)


def test_every_family_of_this_repository_has_its_turn_within_eight_hashes():
    items = [dataclasses.replace(describe_config(source), name=family) for family, source in families().items()]
    runs = [select(items, lambda item: 20.0, set(), commit, 40) for commit in HASHES]
    assert set.union(*(names(run.items) for run in runs)) == names(items)
    assert max(len(run.items) for run in runs) <= 20 < len(items)
    assert len({run.cover for run in runs}) == 1 and 6 <= len(runs[0].cover) <= 12


def test_own_files_that_changed_run_within_the_budget():
    assert not choose({"base.py"}).changed  # of all families, so the cover has it
    assert names(choose({"c.py"}, budget=1).changed) == {"c"}
    assert names(choose({"a.py"}, budget=1).changed) == set()  # in the cover
    many = choose({"d.py"}, budget=3)
    assert len(many.changed) == 3 and not many.more and len(many.items) + len(many.left_out) == len(ITEMS)
    others = len(choose().items)
    assert not choose({"c.py"}, budget=others + 1).more
    assert len(choose({"c.py"}, budget=others + 3).more) == 2


def test_a_new_family_does_not_add_to_what_runs_but_by_its_turn():
    before = choose({"c.py"}, budget=3)
    new = Item("new", "new", frozenset({"new.py", "base.py"}), frozenset({"Conv", "Unshared"}))
    after = select([*ITEMS, new], lambda item: 1.0, {"c.py"}, HASHES[0], 3)
    assert len(after.items) - len(before.items) == (new in after.turn)
    landing = select([*ITEMS, new], lambda item: 1.0, {"c.py", "new.py"}, HASHES[0], 3)
    assert new in (*landing.turn, *landing.changed)


def test_at_least_so_many_run():
    single = [Item("x")]
    assert not select(single, lambda item: 9.0, set(), "1", 0, turns=0).items
    assert names(select(single, lambda item: 9.0, set(), "1", 0, turns=0, least=1).items) == {"x"}


def test_a_config_and_an_architecture_are_described_by_their_files():
    item = describe_config("configs/vision/swin_digits.py")
    assert item.family == "Swin" and {"configs/vision/swin_digits.py", "txjax/models/vision/swin/swin.py"} <= item.files
    assert {"WindowAttention", "WindowAttention as a field"} <= item.parts
    assert "txjax/models/vision/swin/hf_swin.py" in describe_architecture("SwinModel").files
    assert module_of("tests/nn/test_mlp.py") == "txjax/nn/layers/mlp.py"


@pytest.mark.parametrize(
    ("words", "commit", "whole"),
    [
        (["-k", "whole_step"], HASHES[3], False),
        (["-k", "whole_step"], "", True),
    ],
)
def test_pytest_prints_what_is_left_out(root, words, commit, whole):
    """What is named runs whole, unless a commit is given, too."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/test_configs.py", *words]
    environment = {name: value for name, value in os.environ.items() if name != "TXJAX_COMMIT"}
    environment |= {"TXJAX_COMMIT": commit} if commit else {}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("--full runs all" in done.stdout) == (not whole)
    if not whole:
        assert f"turn {turn_of_commit(commit)} of {TURNS}, commit {commit[:8]})" in done.stdout
        assert "test_the_whole_step_traces: " in done.stdout
