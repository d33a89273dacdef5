"""A product of which XLA's Triton makes no kernel is compiled as cuBLAS's for a GPU that is not attached."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import SingleDeviceSharding

from txjax import backend
from txjax.models.vision.sam.card import sam_encoder
from txjax.plan.program import compile_program
from txjax.plan.target import target_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim("Attention kernels", "products that Triton has no kernel for compile for GPUs"),
]


def test_gradients_of_windows_compile() -> None:
    """The values' gradients in SAM's windows of 14 x 14 patches, of which 64 x 64 patches fill 25 only partly."""
    pytest.importorskip("jax_cuda13_plugin", reason="pip install '.[plan-gpu]'")
    device = SingleDeviceSharding(target_of("h100:1").devices[0])
    encoder = sam_encoder("B", dtype="bfloat16", depth=3)
    image = jax.ShapeDtypeStruct((1, 1024, 1024, 3), jnp.float32, sharding=device)
    with backend.target_platform("gpu"):
        variables = jax.eval_shape(encoder.init, jax.random.key(0), image)
        variables = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), variables)
        gradient = jax.jit(jax.grad(lambda *args: encoder.apply(*args).features.astype(jnp.float32).sum()))
        lowered = gradient.trace(variables, image).lower(lowering_platforms=("cuda",))
    with pytest.raises(jax.errors.JaxRuntimeError, match="output tile sizes"):
        lowered.compile()
    assert "__cublas" in compile_program(lowered).as_text()
