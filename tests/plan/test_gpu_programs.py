"""One layer of GPT-2, Llama, ViT and BERT, compiled for H100, takes the memory and the kernels of the reference.

`python tests/gpu_programs.py` renews it; the commit says why.
"""

import importlib.util

import jax
import pytest

import gpu_programs

needs_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None, reason="pip install '.[plan-gpu]'"
)
pytestmark = pytest.mark.claim(
    "Attention kernels", "one layer of four families compiles for one and eight H100 as its reference says"
)


def test_the_reference_has_every_program() -> None:
    assert set(gpu_programs.reference()) == {"jax", *gpu_programs.NAMES}


@needs_cuda
@pytest.mark.slow
@pytest.mark.parametrize("name", gpu_programs.NAMES)
def test_programs_are_as_their_reference(name: str) -> None:
    stored = gpu_programs.reference()
    assert stored["jax"] == jax.__version__, "another version of XLA: python tests/gpu_programs.py"
    found = gpu_programs.measured(name)
    for figure in ("custom_calls", "synchronous_gathers"):
        assert found[figure] == stored[name][figure]
    for figure in ("temporaries", "traffic"):
        assert found[figure] == pytest.approx(stored[name][figure], rel=0.05)
