"""`Experts` agrees with the reference's mixture of experts, with its weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import AUX_COLLECTIONS, Capacity, Dropless, GatedExperts, KernelInit, Routing
from txjax.nn.attention.layer_context import LayerContext

from helpers.arrays import numbers

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
]

D, F, E, K = 12, 20, 6, 2


@pytest.mark.parametrize("routing", [Dropless(), Capacity(factor=E / K)])
def test_outputs_and_balance_loss(routing: Routing) -> None:
    config = mixtral.MixtralConfig(hidden_size=D, intermediate_size=F, num_local_experts=E, num_experts_per_tok=K)
    block = mixtral.MixtralSparseMoeBlock(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    weights = {name: jnp.asarray(tensor.numpy()) for name, tensor in block.state_dict().items()}
    gate, up = jnp.split(weights["experts.gate_up_proj"].swapaxes(1, 2), 2, axis=-1)
    kernels = {"gate": gate, "up": up, "down": weights["experts.down_proj"].swapaxes(1, 2)}
    params = {name: {"kernel": kernel} for name, kernel in kernels.items()} | {
        "router": {"kernel": weights["gate.weight"].T}
    }
    x = numbers(1, 9, D)
    with torch.no_grad():
        want = block(torch.from_numpy(x.copy())).numpy()
        logits = block.gate(torch.from_numpy(x.copy()))[0]
        balance = mixtral.load_balancing_loss_func((logits,), E, K)
    sizes = {"experts": E, "top": K, "hidden": F, "use_bias": False, "balance": 1.0}
    experts = GatedExperts(routing=routing, kernel_init=KernelInit(), **sizes)
    got, aux = jax.jit(lambda p, x: experts.apply({"params": p}, x, LayerContext(train=True), mutable=AUX_COLLECTIONS))(
        params, jnp.asarray(x)
    )
    np.testing.assert_allclose(got, want, atol=1e-4, rtol=0)
    # Theirs sums the shares of the first, second, ... choices, each of sum 1; ours (Fedus et al.) is over all choices.
    np.testing.assert_allclose(aux["losses"]["experts_balance"][0, 0] * K, balance.numpy(), rtol=1e-5)
