"""Temporaries of one call of attention over several documents, forward and backward, compiled for an H100 without one.

    python benchmarks/packed_attention.py

The shape is that of a layer of Llama 3 8B. Needs 'txjax[plan-gpu]'.
"""

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from txjax import backend, plugins
from txjax.nn import Mask, dot_product_attention
from txjax.nn.kernels.kernel_support import cuda_capability
from txjax.plan.target import target_of

BATCH = 4
LENGTH = 8192
HEADS = 32
KEY_HEADS = 8
CHANNELS = 128


def main() -> None:
    plugins.leave_out()
    jax.config.update("jax_platforms", "cpu")
    target = target_of("h100:1")
    device = SingleDeviceSharding(target.devices[0])
    sizes = [(BATCH, LENGTH, heads, CHANNELS) for heads in (HEADS, KEY_HEADS, KEY_HEADS, HEADS)]
    arrays = [jax.ShapeDtypeStruct(size, jnp.bfloat16, sharding=device) for size in sizes]
    segments = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32, sharding=device)
    print(f"{BATCH} x {LENGTH} tokens, {HEADS} heads, {KEY_HEADS} of keys, {CHANNELS} channels, {target.name}")
    for kernel, title in ((None, "a mask [B 1 L L]"), ("packed", "lengths of documents")):

        def gradients(query, key, value, weights, segments, kernel=kernel):
            attend = lambda *heads: dot_product_attention(*heads, Mask.within(segments, True), kernel=kernel)  # noqa: E731
            return jax.vjp(attend, query, key, value)[1](weights)

        with backend.target_platform(target.platform), cuda_capability(target.capability):
            lowered = jax.jit(gradients).trace(*arrays, segments).lower(lowering_platforms=("cuda",))
        print(f"{title}: {lowered.compile().memory_analysis().temp_size_in_bytes / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
