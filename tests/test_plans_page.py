"""`benchmarks/plans.py`: the plans of configs, and their rows in docs/plan.md."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from txjax import config

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("plans")


def test_the_page_has_the_plans_of_configs(plans: ModuleType) -> None:
    """A row is one of a plan with its slice and flags; its numbers were measured."""
    rows = plans.rows_of(plans.PAGE.read_text())
    keys = [plan.key for plan in plans.all_plans()]
    assert [[row for row in rows if row.startswith(key)][1:] for key in keys] == [[]] * len(keys)
    assert not [key for key in keys if not any(row.startswith(key) for row in rows)]
    assert len(rows) == len(keys)


def test_plans_are_of_configs(plans: ModuleType) -> None:
    """Each has a variant that exists and flags that it takes."""
    for plan in plans.all_plans():
        config.load(str(plans.ROOT / plan.config), [f"--config.{flag}" for flag in plan.flags])


def test_a_row_takes_the_place_of_its_name_and_slice(plans: ModuleType) -> None:
    page = "Text.\n<!-- rows, measured by benchmarks/plans.py -->\n{}\n<!-- end -->\nMore."
    head = "\n".join(plans.HEAD)
    old = page.format(f"{head}\n| a | v5e:2x4 | `x=1` | 1 |\n| a | v5p:2x2x1 | | 2 |")
    assert plans.with_row(old, "| a | v5e:2x4 | | 3 |") == page.format(
        f"{head}\n| a | v5e:2x4 | | 3 |\n| a | v5p:2x2x1 | | 2 |"
    )
    assert plans.with_row(old, "| b | v5e:2x4 | | 3 |") == page.format(
        f"{head}\n| a | v5e:2x4 | `x=1` | 1 |\n| a | v5p:2x2x1 | | 2 |\n| b | v5e:2x4 | | 3 |"
    )
