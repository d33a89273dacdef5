"""Swin with the weights of transformers' Swin gives its outputs, also where windows and merging pad the grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage, Swin, shifted_windows
from txjax.nn import Classes, LayerNorm, MeanTokens, PatchEmbedding

from made import numbers

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
swin = pytest.importorskip("transformers.models.swin.modeling_swin", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
]


def reference(image: int, window: int) -> "torch.nn.Module":
    """A new one for every shape: a call on a small image changes its windows for good."""
    torch.manual_seed(0)
    config = swin.SwinConfig(
        image_size=image, patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 3], window_size=window, num_labels=5
    )
    model = swin.SwinForImageClassification(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.2 + 0.1)
    return model


def mapped(weights: dict[str, np.ndarray]) -> dict:
    """The reference's weights, by their names in memory, under the paths of `Swin`."""

    def linear(name: str, *features: int) -> dict:
        bias = {} if f"{name}.bias" not in weights else {"bias": weights[f"{name}.bias"].reshape(features)}
        return {"kernel": weights[f"{name}.weight"].T.reshape(-1, *features), **bias}

    def norm(name: str) -> dict:
        return {"scale": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]}

    def layer(name: str, heads: int) -> dict:
        width = weights[f"{name}.attention.q_proj.bias"].size
        split = heads, width // heads
        out = linear(f"{name}.attention.o_proj", width)
        projections = {own: linear(f"{name}.attention.{own[0]}_proj", *split) for own in ("query", "key", "value")}
        return {
            "attention": {
                **projections,
                "out": out | {"kernel": out["kernel"].reshape(*split, width)},
                "table": weights[f"{name}.attention.relative_position_bias.relative_position_bias_table"],
            },
            "mlp": {"up": linear(f"{name}.mlp.fc1", 4 * width), "down": linear(f"{name}.mlp.fc2", width)},
            "norm_attention": norm(f"{name}.layernorm_before"),
            "norm_mlp": norm(f"{name}.layernorm_after"),
        }

    made = {"head": linear("classifier", 5), "norm_final": norm("swin.layernorm")}
    patch = "swin.embeddings.patch_embeddings.projection"
    kernel = weights[f"{patch}.weight"].transpose(2, 3, 1, 0).reshape(-1, 12)
    made["downsample_0"] = {
        "linear": {"kernel": kernel, "bias": weights[f"{patch}.bias"]},
        "norm": norm("swin.embeddings.norm"),
    }
    merging = "swin.encoder.layers.0.downsample"
    made["downsample_1"] = {"linear": linear(f"{merging}.reduction", 24), "norm": norm(f"{merging}.norm")}
    for stage, heads in enumerate((2, 3)):
        layers = [layer(f"swin.encoder.layers.{stage}.blocks.{i}", heads) for i in range(2)]
        made[f"stages_{stage}"] = {"layers": {"block": jax.tree.map(lambda *each: np.stack(each), *layers)}}
    return {"params": jax.tree.map(jnp.asarray, made)}


# Windows that divide the first grid and are the whole second one; padded windows, and a stage of 5 x 5 tokens.
@pytest.mark.parametrize(("size", "window"), [(56, 7), (40, 4)])
def test_outputs_are_those_of_the_reference(size: int, window: int) -> None:
    theirs = reference(size, window)
    ours = Swin(
        stages=(Stage(12, 2, 2), Stage(24, 2, 3)),
        stem=PatchEmbedding(patch=4),
        attention=shifted_windows(window),
        norm=LayerNorm(eps=1e-5),
        head=Classes(5, MeanTokens()),
    )
    image = numbers(2, size, size, 3)
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(image.transpose(0, 3, 1, 2).copy()), output_hidden_states=True)
    variables = mapped({name: value.numpy() for name, value in theirs.state_dict().items()})
    run = jax.jit(lambda image: (ours.apply(variables, image), ours.clone(head=None).apply(variables, image)))
    logits, encoded = run(jnp.asarray(image))
    np.testing.assert_allclose(logits, wanted.logits, atol=1e-4)
    np.testing.assert_allclose(encoded.stages[1].features, wanted.hidden_states[-1], atol=1e-4)
