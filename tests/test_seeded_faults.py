"""The list of seeded faults fits the code and CONTRIBUTING.md. `python tests/seeded_faults.py` seeds them."""

import selection
from seeded_faults import FAULTS, ROOT, TURNS, place


def test_every_fault_has_one_place_and_tests_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for fault in FAULTS:
        assert place(fault, ROOT).read_text().replace(fault.text, fault.instead) != place(fault, ROOT).read_text()
        files = [word for word in fault.tests.split() if word.startswith("tests/")]
        assert files and all((ROOT / file).is_file() for file in files), fault
        assert f"| {fault.title} | `{fault.tests}` |" in text, f"CONTRIBUTING.md lacks: {fault.title}"
    assert len(FAULTS) >= 28 and TURNS == selection.TURNS
