"""The step of every config lowers for NVIDIA GPUs, with the kernels that are chosen for them."""

import dataclasses

import pytest
from jax._src.cudnn import fused_attention_stablehlo

from txjax import config
from txjax.experiment import with_default_eval_data
from txjax.plan.program import laid_out
from txjax.plan.target import fake
from txjax.shipped_configs import PREFIX, config_names
from txjax.train.state.counting import costliest_batch
from txjax.train.step import jit_step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim("Attention kernels", "the step of every config lowers for NVIDIA GPUs"),
]


@pytest.mark.parametrize("name", config_names())
def test_the_step_lowers_for_cuda(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CUDA's plugin: all that JAX reads of cuDNN is its version."""
    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91300)
    run = with_default_eval_data(config.load(PREFIX + name, []))
    with laid_out(run, dataclasses.replace(fake(1, "H100"), platform="gpu")) as layout:
        _, batch = costliest_batch(run, layout.variables)
        jit_step(run, layout).trace(layout.abstract, batch).lower(lowering_platforms=("cuda",))
