"""One layer of GPT-2, Llama, ViT and BERT, compiled for H100 and TPU v5e, has the memory and kernels of the reference.

`python tests/device_programs.py` renews it; the commit says why.
"""

import jax
import pytest

import device_programs

COMPILERS = {"h100": ("jax_cuda13_plugin", "plan-gpu"), "v5e": ("libtpu", "plan")}
pytestmark = pytest.mark.claim(
    "Attention kernels", "one layer of four families compiles for H100 and TPU v5e as its reference says"
)


def test_the_reference_has_every_program() -> None:
    assert set(device_programs.reference()) == {"jax", *device_programs.NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("name", device_programs.NAMES)
def test_programs_are_as_their_reference(name: str) -> None:
    package, extra = COMPILERS[name.split()[1].partition(":")[0]]
    pytest.importorskip(package, reason=f"pip install '.[{extra}]'")
    stored = device_programs.reference()
    assert stored["jax"] == jax.__version__, "another version of XLA: python tests/device_programs.py"
    found = device_programs.measured(name)
    for figure in ("custom_calls", "synchronous_gathers"):
        assert found[figure] == stored[name][figure]
    for figure in ("temporaries", "traffic"):
        assert found[figure] == pytest.approx(stored[name][figure], rel=0.05)
