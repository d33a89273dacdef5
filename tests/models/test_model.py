"""What `Model` does for every model: parts with scalings of their own, one adapter, no parameters shared unseen."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from txjax import sharding
from txjax.experiment import Experiment
from txjax.models.model import Model
from txjax.models.text.decoder import Decoder
from txjax.nn import LayerNorm, Learned, Logits, Positions
from txjax.nn.adapters import LoRA
from txjax.optim import Adafactor, Constant, Lion
from txjax.parametrization import MuP, Standard
from txjax.train.check import check
from txjax.train.state.state import build_layout
from txjax.types import UserError, flat_paths

from helpers import tiny_experiments
from helpers.arrays import shapes

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "parts of a model have their own scalings; an object at two places is an error",
)

HALF = MuP(base_width=8, base_head_size=8)
QUARTER = MuP(base_width=4, base_head_size=8)


class Towers(Model, kw_only=True):
    """Two decoders; the logits are the first one's, from the features of both."""

    left: Decoder
    right: Decoder
    vocab: int = 256

    @nn.compact
    def __call__(self, tokens: Any, segments: Any = None, positions: Any = None, train: bool = False) -> Logits:
        left, right = self.left(tokens, train=train), self.right(tokens, train=train)
        return Logits(left.features + right.features, left.kernel, left.bias)


def tower(**fields: Any) -> Decoder:
    return Decoder(**{"vocab": 256, "width": 16, "depth": 1, "heads": 2} | fields)


def towers(left: dict[str, Any], right: dict[str, Any], **fields: Any) -> Experiment:
    model = Towers(left=tower(**left), right=tower(**right), **fields)
    return tiny_experiments.decoder(model=model, optimizer=Lion(schedule=Constant(), weight_decay=0.0, peak_lr=1.0))


@pytest.mark.parametrize(("right", "hidden"), [(Standard(), 1.0), (QUARTER, 0.25)], ids=["standard", "muP"])
def test_each_tower_has_the_learning_rates_of_its_own_parametrization(right: Any, hidden: float) -> None:
    """Lion's updates are signs times the learning rate, which falls with the width for hidden kernels alone."""
    experiment = towers({"parametrization": HALF}, {"parametrization": right})
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        ones = jax.tree.map(lambda x: jnp.ones(x.shape), layout.abstract.params)
        updates, _ = layout.tx.update(ones, layout.tx.init(ones), ones)
        if isinstance(right, Standard):  # the other one is still muP's
            with pytest.raises(UserError, match="config.optimizer: expected one of .* under MuP"):
                build_layout(dataclasses.replace(experiment, optimizer=Adafactor()), built)
    for path, update in flat_paths(updates).items():
        tower, is_hidden = path.split("/")[0], path.endswith("kernel")
        wanted = {"left": 0.5, "right": hidden}[tower] if is_hidden else 1.0
        assert float(update.ravel()[0]) == -wanted, path


def test_an_adapter_of_a_model_inside_is_refused() -> None:
    model = towers({}, {"adapter": LoRA()}).model
    with pytest.raises(UserError, match="config.model.right.adapter: expected None, got 'LoRA'"):
        shapes(model, jnp.zeros((1, 4), jnp.int32))
    model = towers({}, {}, adapter=LoRA(paths="right/.*query", rank=2)).model
    adapted = [path for path in flat_paths(shapes(model, jnp.zeros((1, 4), jnp.int32))) if "/lora/" in path]
    assert adapted == [f"params/right/layers/block/attention/query/lora/{part}/kernel" for part in ("down", "up")]


def test_one_object_in_two_towers_is_refused_if_its_parameters_would_be_shared() -> None:
    def experiment(positions: Positions, other: Positions) -> Experiment:
        norm = LayerNorm()  # a template, of which every tower makes copies
        return towers({"positions": positions, "norm": norm}, {"positions": other, "norm": norm})

    positions = Learned(max_length=16)
    check(experiment(positions, Learned(max_length=16)))
    check(experiment(positions, positions.clone()))
    words = "right.positions: expected a module of its own, got 'the same object as config.model.left.positions'"
    with pytest.raises(UserError, match=f"config.model.{words}"):
        check(experiment(positions, positions))
