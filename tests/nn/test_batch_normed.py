"""The linear probe of MAE: batch normalization between a frozen encoder and the classifier."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.models.vision.vit import ViT
from txjax.nn import BatchNorm, BatchNormed, Classes, FirstToken, Pooled
from txjax.train.state.state import build_layout
from txjax.types import flat_paths

from helpers.arrays import numbers, variables

IMAGE = jnp.asarray(numbers(8, 4, 6, 1))
SIZES: dict[str, Any] = dict(patch=2, width=8, depth=1, heads=2)


def test_features_are_normalised_by_the_batch_and_then_by_averages() -> None:
    probe = ViT(**SIZES, head=Classes(3, BatchNormed(FirstToken(), BatchNorm(eps=1e-6, momentum=0.75))))
    made = jax.tree.map(np.array, variables(probe, IMAGE))
    made["params"]["norm_head"] = {"scale": np.ones(8, np.float32), "bias": np.zeros(8, np.float32)}
    head = made["params"].pop("head")
    frozen = {name: tree for name, tree in made["params"].items() if name != "norm_head"}
    x = np.asarray(jax.jit(ViT(**SIZES, head=Pooled(FirstToken())).apply)({"params": frozen}, IMAGE), np.float64)
    made["params"]["head"] = head

    trained, state = jax.jit(lambda v: probe.apply(v, IMAGE, train=True, mutable=["batch_stats"]))(made)
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-6)
    np.testing.assert_allclose(trained, expected @ head["kernel"] + head["bias"], rtol=1e-4, atol=1e-4)

    old, new = made["batch_stats"]["norm_head"], state["batch_stats"]["norm_head"]
    np.testing.assert_allclose(new["mean"], 0.75 * old["mean"] + 0.25 * x.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(new["var"], 0.75 * old["var"] + 0.25 * x.var(0, ddof=1), rtol=1e-4, atol=1e-5)

    expected = (x - old["mean"]) / np.sqrt(old["var"] + 1e-6)
    logits = jax.jit(probe.apply)(made, IMAGE)
    np.testing.assert_allclose(logits, expected @ head["kernel"] + head["bias"], rtol=1e-4, atol=1e-4)


def test_the_published_probe_trains_the_head_alone(root, monkeypatch) -> None:
    from txjax import config, sharding

    monkeypatch.setattr(jax, "device_count", lambda: 1)
    experiment = config.load(str(root / "configs/vision/mae_linear_imagenet.py"), [])
    with sharding.use_mesh(experiment.mesh, jax.devices()[:1]) as built:
        layout = build_layout(experiment, built)
    assert set(flat_paths(layout.abstract.params)) == {"head/kernel", "head/bias"}
    assert {"norm_head/scale", "norm_head/bias", "patch_embed/kernel"} <= set(flat_paths(layout.abstract.frozen))
    assert set(flat_paths(layout.abstract.model_state)) == {"batch_stats/norm_head/mean", "batch_stats/norm_head/var"}
