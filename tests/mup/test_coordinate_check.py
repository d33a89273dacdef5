"""Verdicts of the coordinate check on known power laws; measured activations of real models by step and width."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.data import Bytes, Images, NextTokenWindows, TextWindows, train_batches
from txjax.experiment import Experiment
from txjax.models.model import Model
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.text.recurrent import RecurrentEncoderDecoder
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.vit import ViT
from txjax.mup.activations import OUTPUT, measure
from txjax.mup.coordinate_check import Check, Coordinates, check, exponent
from txjax.nn import Classes, Embed, Encoded, FirstToken, Learned, Linear, Logits, MeanTokens, Untied
from txjax.objectives import Classification, MaskedToken, NextToken, SpanCorruption
from txjax.optim import AdamW, Constant
from txjax.parametrization import MuP, Parametrization, Scaling, Standard
from txjax.train.state.state import build_layout
from txjax.train.step import make_step
from txjax.types import UserError

pytestmark = pytest.mark.claim("Models and objectives", "kernels with a fixed first input are flat under muP")

MUP = MuP(base_width=32, base_head_size=8)
SPECIALS = tuple(f"[{i}]" for i in range(22))


def rows(**exponents: tuple[float, float]) -> list[Coordinates]:
    """Modules whose sizes and changes are these powers of the width, at two seeds around them."""
    return [
        Coordinates(module, width, step, (1 + seed) * width**size, (1 - seed) * step * width**change)
        for module, (size, change) in exponents.items()
        for width in (16, 32, 128)
        for step in range(3)
        for seed in (-0.1, 0.1)
    ]


def test_exponents_of_power_laws() -> None:
    found = exponent([16, 32, 128], [3 * w**0.7 for w in (16, 32, 128)])
    assert found is not None and found[0] == pytest.approx(0.7) and found[1] < 1e-6
    x, y = np.log([16, 32, 128]), np.array([0.1, 0.3, 0.2])
    slope = ((x - x.mean()) * y).sum() / np.square(x - x.mean()).sum()
    left = y - y.mean() - slope * (x - x.mean())
    error = (np.square(left).sum() / np.square(x - x.mean()).sum()) ** 0.5  # one degree of freedom
    assert exponent([16, 32, 128], np.exp(y)) == pytest.approx((slope, error))
    assert exponent([16, 32, 128], [1.0, 0.0, 1.0]) is None


@pytest.mark.parametrize(
    ("laws", "flat", "words"),
    [
        ({"mlp": (0.1, 0.2), OUTPUT: (-0.5, 0.0)}, True, r"flat: .* change of mlp scales as width\^\+0.20"),
        ({"mlp": (0.0, 0.4), OUTPUT: (0.0, 0.0)}, False, r"not flat: after 2 updates the change of mlp .*\+0.40"),
        ({"mlp": (0.9, 0.4), OUTPUT: (0.0, 0.0)}, False, r"not flat: after 2 updates the size of mlp .*\+0.90"),
        ({"mlp": (0.0, 0.0), OUTPUT: (0.0, -1.0)}, False, r"vanishing: .* change of output scales as width\^-1.00"),
    ],
)
def test_verdicts(laws: Any, flat: bool, words: str) -> None:
    found = check(rows(**laws), OUTPUT)
    assert found.flat is flat
    with pytest.raises(UserError, match=words):
        raise UserError("verdict", found.verdict)


def test_nonfinite_activations_and_too_few_widths() -> None:
    broken = [dataclasses.replace(row, size=np.inf) if row.width == 128 else row for row in rows(mlp=(0, 0))]
    assert check(broken, "mlp").verdict == "not flat: mlp is not finite at width 128 after 0 updates"
    with pytest.raises(UserError, match="--widths: expected at least three widths, got '16,32'"):
        check([row for row in rows(mlp=(0, 0)) if row.width < 128], "mlp")


def experiment(kind: str, width: int, made: Parametrization, **optimizer: Any) -> Experiment:
    sizes: dict[str, Any] = dict(width=width, depth=1, heads=4, parametrization=made)
    text = TextWindows(name="txjax_python_text", split="train", length=32, tokenizer=Bytes(specials=("[MASK]",)))
    images = Images(name="txjax_digits", split="train", shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    model, objective, data = {
        "decoder": lambda: (
            Decoder(vocab=256, head=Untied(), **sizes),
            NextToken(),
            NextTokenWindows(name="txjax_python_text", length=32),
        ),
        "bert": lambda: (
            Bert(vocab=257, positions=Learned(max_length=32), **sizes),
            MaskedToken(mask_id=256, vocab=256),
            text,
        ),
        "vit": lambda: (ViT(patch=2, head=Classes(10, FirstToken()), **sizes), Classification(), images),
        "conv": lambda: (
            ConvNet(head=Classes(10, MeanTokens()), width=width, depth=1, parametrization=made),
            Classification(),
            images,
        ),
        "recurrent": lambda: (
            RecurrentEncoderDecoder(vocab=278, width=width, parametrization=made),
            SpanCorruption(start_id=256, end_id=257, sentinel_id=277),
            TextWindows(name="txjax_python_text", split="train", length=32, tokenizer=Bytes(specials=SPECIALS)),
        ),
    }[kind]()
    return Experiment(
        model=model,
        objective=objective,
        data=data,
        optimizer=AdamW(**{"peak_lr": 1e-2, "schedule": Constant()} | optimizer),
        batch_size=16,
        trackers=(),
    )


@pytest.mark.slow
def test_measured_sizes_are_those_of_module_outputs() -> None:
    """Every module of the model, at each number of updates; embeddings against the parameters of a run by hand."""
    made = experiment("decoder", 32, Standard())
    found = measure(made, steps=2, seeds=(5,))
    by = {(row.module, row.step): row for row in found}
    assert {"embed", "layers/block/mlp/down", "layers/block/attention/query", "norm_final", OUTPUT} <= {
        m for m, _ in by
    }
    assert all(row.width == 32 and row.size > 0 and (row.change > 0) == (row.step > 0) for row in found)
    with sharding.use_mesh(made.mesh) as built:
        layout = build_layout(made, built)
        state, step = layout.create(5), jax.jit(make_step(made, layout))
        batches = train_batches(made.data.open(), batch_size=16, seed=0)
        given = [next(batches) for _ in range(2)]
        batches.close()
        first = np.asarray(state.params["embed"]["embedding"])[given[0]["tokens"]]
        for i in range(2):
            state, _ = step(state, given[i])
            now = np.asarray(state.params["embed"]["embedding"])[given[0]["tokens"]]
            assert by["embed", i + 1].size == pytest.approx(np.abs(now).mean(), rel=1e-5)
            assert by["embed", i + 1].change == pytest.approx(np.abs(now - first).mean(), rel=1e-4)


class Convolutional(Model, kw_only=True):
    """Predicts a token from the two before: kernels [taps embed width], whose first input axis is not wide."""

    vocab: int
    width: int
    depth: int
    heads: int

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        return self.parametrization.scaling(self.width, 8, self.depth)

    @nn.compact
    def __call__(self, tokens: Any, segments: Any = None, positions: Any = None, train: bool = False) -> Logits:
        embed, drawn = Embed(self.vocab, self.width, name="embed"), dict(kernel_init=self.kernel_init)
        x = embed(tokens)
        for i in range(2):
            taps = jnp.stack([x, jnp.roll(x, 1, 1)], -2)
            mix = Linear((self.width,), ("width",), ("taps", "embed"), **drawn, name=f"mix_{i}")
            x = x + nn.gelu(mix(taps))
        return self.apply_head(Encoded(x, segments, embed.embedding), Untied(), train)


@pytest.mark.slow
def test_kernels_whose_first_input_is_not_wide_are_hidden() -> None:
    """Taken as inputs, from fixed to wide, their changes would grow as width^0.8 here."""

    def run(width: int) -> Experiment:
        model = Convolutional(vocab=256, width=width, depth=1, heads=4, parametrization=MUP)
        return dataclasses.replace(experiment("decoder", width, MUP), model=model)

    found = check([row for w in (32, 64, 128) for row in measure(run(w), steps=3)], OUTPUT)
    assert found.flat, found.verdict


def checked(kind: str, made: Parametrization) -> Check:
    rate = {"recurrent": {"peak_lr": 2e-3}}.get(kind, {})  # at 1e-2 the encoder's changes grow as width^0.29
    rows = [measure(experiment(kind, w, made, **rate), steps=4, seeds=(0, 1)) for w in (32, 64, 128)]
    found = [row for each in rows for row in each]
    return check(found, OUTPUT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decoder", "bert", "vit", "conv", "recurrent"])
def test_activations_are_flat_under_mup_only(kind: str) -> None:
    mup = checked(kind, MUP)
    assert mup.flat, mup.verdict
    if kind == "decoder":  # minutes for each of the others
        standard = checked(kind, Standard())
        assert not standard.flat, standard.verdict
