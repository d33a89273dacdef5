"""Models of several stages: what they return, and what goes through all stages together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.swin import Swin, shifted_windows
from txjax.nn import Attention, Classes, DepthwiseConv, Grid, MeanTokens, Mixer, PatchEmbedding, Pooling
from txjax.parametrization import DepthMuP, MuP
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "stages: all are returned, stochastic depth and muP go through all",
)

IMAGE = jnp.asarray(numbers(2, 12, 10, 1))


def swin(**fields: Any) -> Swin:
    stages = (Stage(8, 2, 2), Stage(16, 2, 2), Stage(24, 4, 3))
    small: dict[str, Any] = dict(stages=stages, stem=PatchEmbedding(patch=2), mixer=shifted_windows(3))
    return Swin(**small | fields)


def test_every_stage_is_returned_and_the_head_reads_the_last() -> None:
    model = swin(head=Classes(3, MeanTokens()))
    made = variables(model, IMAGE)
    logits, encoded = jax.jit(lambda image: (model.apply(made, image), swin().apply(made, image)))(IMAGE)
    assert [stage.grid for stage in encoded.stages] == [Grid(6, 5), Grid(3, 3), Grid(2, 2)]
    assert [stage.features.shape for stage in encoded.stages] == [(2, 30, 8), (2, 9, 16), (2, 4, 24)]
    norm, last = made["params"]["norm_final"], np.asarray(encoded.stages[-1].features)
    centred = last - last.mean(-1, keepdims=True)
    expected = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-6) * norm["scale"] + norm["bias"]
    np.testing.assert_allclose(encoded.features, expected, atol=1e-5)
    head = made["params"]["head"]
    np.testing.assert_allclose(logits, expected.mean(1) @ head["kernel"] + head["bias"], atol=1e-5)


@pytest.mark.parametrize(
    ("mixer", "branch", "kernels"),
    [
        (Attention(use_bias=False), "attention", ("query", "key", "value", "out")),
        (DepthwiseConv(side=3), "mixer", ("conv",)),
        (Pooling(), "mixer", ()),
    ],
)
def test_a_branch_is_called_attention_only_where_it_is(mixer: Mixer, branch: str, kernels: tuple[str, ...]) -> None:
    model = MetaFormer(stages=(Stage(8, 1, 2),), mixer=mixer)
    block = shapes(model, IMAGE)["params"]["stages_0"]["layers"]["block"]
    assert set(block.pop(branch, {})) == set(kernels)
    assert set(block) == {"mlp", "norm_mlp", "scale_mlp", f"norm_{branch}", f"scale_{branch}"}


def test_stochastic_depth_rises_over_the_layers_of_all_stages() -> None:
    made = [swin().layers_of(i) for i in range(3)]
    found = np.concatenate([stage.stack.depth_fractions(stage.depth) for stage in made])
    np.testing.assert_allclose(found, np.linspace(0, 1, 8), atol=1e-6)


def test_all_stages_scale_by_one_ratio() -> None:
    model = swin(parametrization=MuP(base_width=4, base_head_size=4))
    ratios = {(stage.scaling().width, stage.scaling().head_size) for stage in map(model.layers_of, range(3))}
    assert ratios == {(2.0, 1.0)} == {(model.scaling().width, model.scaling().head_size)}
    with pytest.raises(
        UserError, match=r"config\.model\.parametrization: expected MuP\(\) or Standard\(\) for a model"
    ):
        shapes(swin(parametrization=DepthMuP(base_width=4, base_head_size=4, base_depth=2)), IMAGE)
