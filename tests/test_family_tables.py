"""The tables of families in the docs are those of the cards."""

import pytest
from family_tables import ROOT, TABLES, updated


@pytest.mark.parametrize("page", TABLES)
def test_tables_of_families_are_fresh(page: str) -> None:
    """`python tests/family_tables.py` writes them."""
    assert updated(page) == (ROOT / page).read_text()
