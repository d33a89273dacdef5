"""The convolutional network equals PyTorch's modules with the same weights, in training too."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.vision.conv_net import ConvNet
from txjax.nn import Classes, MeanTokens
from txjax.types import flat_paths

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "a convolutional network equals PyTorch's modules: outputs, gradients, running statistics (needs torch)",
)

X = numbers(6, 8, 8, 3)
LABELS = np.arange(6) % 4


def network(torch: Any, made: Any) -> tuple[Any, dict[str, Any]]:
    """The function image -> logits of PyTorch's own modules, and these by our names."""
    flat, modules = flat_paths(made), {}
    for path in [path for path in flat if path.startswith("params/") and path.endswith("kernel")]:
        kernel, name = np.asarray(flat[path]), path.removeprefix("params/").removesuffix("/kernel")
        if kernel.ndim == 2:
            modules[name] = torch.nn.Linear(*kernel.shape)
        else:
            side, inputs, features = kernel.shape[0], *kernel.shape[2:]
            stride = 2 if name in ("stage1_block0/conv1", "stage1_block0/conv_shortcut") else 1
            modules[name] = torch.nn.Conv2d(inputs, features, side, stride, side // 2, bias=False)
    for path in [path for path in flat if path.endswith("/mean")]:
        name = path.removeprefix("batch_stats/").removesuffix("/mean")
        modules[name] = torch.nn.BatchNorm2d(flat[path].shape[0], momentum=0.1)
    with torch.no_grad():
        for name, module in modules.items():
            for own, theirs in names(name).items():
                if own in flat:
                    value = np.asarray(flat[own])
                    order = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[value.ndim]
                    getattr(module, theirs).copy_(torch.tensor(value.transpose(order)))

    def forward(x: Any) -> Any:
        def convolved(x: Any, where: str, number: str) -> Any:
            return modules[f"{where}norm{number}"](modules[f"{where}conv{number}" if where else "stem"](x))

        x = torch.relu(convolved(x, "", "_stem"))
        for where in ("stage0_block0/", "stage1_block0/"):
            y = convolved(torch.relu(convolved(x, where, "1")), where, "2")
            x = torch.relu(y + (convolved(x, where, "_shortcut") if f"{where}conv_shortcut" in modules else x))
        return modules["head"](x.mean((2, 3)))

    return forward, modules


def names(module: str) -> dict[str, str]:
    """The paths of our arrays of a module, and the attributes of PyTorch's."""
    ours = {"kernel": "weight", "scale": "weight", "bias": "bias"}
    of_params = {f"params/{module}/{name}": theirs for name, theirs in ours.items()}
    return of_params | {f"batch_stats/{module}/{name}": f"running_{name}" for name in ("mean", "var")}


@pytest.mark.slow
def test_equals_pytorch_in_outputs_gradients_and_averages() -> None:
    torch = pytest.importorskip("torch")
    model = ConvNet(width=4, depth=1, head=Classes(4, MeanTokens()))
    made = variables(model, X)
    forward, modules = network(torch, made)
    image, labels = torch.tensor(X.transpose(0, 3, 1, 2)).contiguous(), torch.tensor(LABELS)
    # (oneDNN's gradient of a strided convolution is wrong on some processors where channels are last in memory)

    def loss(params: Any) -> tuple[jax.Array, Any]:
        state = {"params": params, "batch_stats": made["batch_stats"]}
        logits, changed = model.apply(state, jnp.asarray(X), train=True, mutable=["batch_stats"])
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.asarray(LABELS)[:, None], 1)
        return -picked.mean(), (logits, changed)

    for module in modules.values():
        module.eval()
    wanted = forward(image).detach().numpy()
    np.testing.assert_allclose(jax.jit(model.apply)(made, X), wanted, rtol=1e-4, atol=1e-4)
    for module in modules.values():
        module.train()
    wanted = forward(image)
    torch.nn.functional.cross_entropy(wanted, labels).backward()
    gradient, (logits, changed) = jax.jit(jax.grad(loss, has_aux=True))(made["params"])
    np.testing.assert_allclose(logits, wanted.detach().numpy(), rtol=1e-4, atol=1e-4)
    found, seen = flat_paths({"params": gradient}), flat_paths(changed)
    for name, module in modules.items():
        for own, theirs in names(name).items():
            if own in seen:
                np.testing.assert_allclose(seen[own], getattr(module, theirs), rtol=1e-4, atol=1e-5, err_msg=own)
            elif own in found:
                value = getattr(module, theirs).grad.numpy()
                value = value.transpose({4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}[value.ndim])
                np.testing.assert_allclose(found[own], value, rtol=2e-3, atol=2e-5, err_msg=own)
