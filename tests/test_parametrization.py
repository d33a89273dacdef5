"""Parametrizations against the published tables, written again here; at the base's sizes the program is the same."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import config, sharding
from txjax.axes import Axes
from txjax.axes import axes_of as parameter_axes
from txjax.checks import Checks
from txjax.eval.resolution import resolve
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import (
    GPT2,
    MLP,
    Attention,
    Classes,
    Encoded,
    Experts,
    Init,
    KernelInit,
    LayerContext,
    LayerNorm,
    Linear,
    MaskedTokens,
    NextSentence,
    Pooler,
    PostNorm,
    PreNorm,
    Tied,
    TiedBias,
    Untied,
)
from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Lion, Muon
from txjax.parametrization import RULES, CompleteP, DepthMuP, MuP, Scaling
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import make_step
from txjax.types import UserError, flat_paths

from helpers.arrays import Headed, call, numbers, shapes, variables

TOKENS = np.arange(10, dtype=np.int32).reshape(2, 5) % 7
IMAGE = numbers(2, 4, 4, 1)
MUP = MuP(base_width=8, base_head_size=4)
MODELS: dict[str, tuple[Any, Any]] = {
    "decoder": (lambda **f: Decoder(vocab=7, head=Untied(), initial=GPT2(), **f), TOKENS),
    "experts": (lambda **f: Decoder(vocab=7, mlp=Experts(experts=4), **f), TOKENS),
    "bert": (lambda **f: Bert(vocab=7, head=MaskedTokens(next_sentence=NextSentence()), **f), TOKENS),
    "vit": (lambda **f: ViT(patch=2, head=Classes(3, Pooler()), **f), IMAGE),
    "mae": (
        lambda width, **f: MAE(
            patch=2, width=width, decoder_width=width // 2, decoder_depth=1, decoder_heads=f["heads"], **f
        ),
        IMAGE,
    ),
}
on_models = pytest.mark.parametrize("name", MODELS)
KINDS = {"adam": AdamW, "sgd": SGD}


def part(path: str) -> str:
    """Input, hidden or output, by the parameters' names in these models."""
    if path.startswith("head/") or path.startswith(("next_sentence/", "decoder/out")):
        return "output" if path.endswith("kernel") else "fixed"  # a bias of logits doesn't depend on the width
    if path.endswith("router/kernel"):
        return "output"
    return "hidden" if path.endswith("kernel") and not path.startswith("patch_embed") else "input"


# Yang et al. 2022, table 8, at four times the base's width: the initial variance (of the form 1 / fan-in for inputs,
# whose fan-in is the same, and hidden kernels, and constant for outputs), and the learning rates.
VARIANCE = {"input": 1, "hidden": 1 / 4, "output": 1, "fixed": 1}
LR = {
    "adam": {"input": 1, "hidden": 1 / 4, "output": 1, "fixed": 1},
    "sgd": {"input": 4, "hidden": 1, "output": 4, "fixed": 1},
}


def axes_of(model: Any, inputs: Any) -> dict[str, Any]:
    boxed = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.asarray(inputs)))["params"]
    return jax.tree.map(parameter_axes, boxed, is_leaf=lambda node: hasattr(node, "names"))


def flat_axes(model: Any, inputs: Any) -> dict[str, Axes]:
    return flat_paths(axes_of(model, inputs), is_leaf=lambda node: isinstance(node, tuple))


@on_models
def test_kernels_are_drawn_as_the_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[tuple[int, float]]] = []

    def normal(std: float) -> Any:
        def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
            return jnp.full(shape, std, dtype)

        return draw

    monkeypatch.setattr(nn.initializers, "normal", normal)
    make, inputs = MODELS[name]

    def stds(width: int) -> dict[str, float]:
        """The standard deviation of every kernel and table; traced, and computed without the model."""
        model = make(width=width, depth=2, heads=2, parametrization=MuP(base_width=16, base_head_size=8))
        params = jax.jit(lambda: nn.meta.unbox(model.init(jax.random.key(0, impl="rbg"), jnp.asarray(inputs))))()
        flat = flat_paths(params["params"])
        return {path: float(x.ravel()[0]) for path, x in flat.items() if path.endswith(("kernel", "embedding"))}

    base, wide = stds(16), stds(64)
    assert not drawn and {"hidden", "output"} & {part(path) for path in base}
    for path in base:
        assert wide[path] ** 2 == pytest.approx(VARIANCE[part(path)] * base[path] ** 2, rel=1e-5), path


@on_models
@pytest.mark.parametrize("rule", LR)
def test_factors_are_those_of_the_table(name: str, rule: str) -> None:
    make, inputs = MODELS[name]
    model = make(width=32, depth=2, heads=2, parametrization=MUP)
    found = set()
    for path, axes in flat_axes(model, inputs).items():
        factors, what = model.scaling().factors(axes, RULES[rule]), part(path)
        found.add(what)
        assert factors.lr == LR[rule][what], path
        assert factors.lr * factors.decay == 1, path  # the decay of a weight in an update doesn't depend on the width
        # Adam's eps falls with the gradients, which are 1/4 as large wherever they come back through the width.
        assert factors.gradient == (4 if rule == "adam" and what != "fixed" else 1), path
    assert found >= {"input", "hidden"} and found & {"output", "fixed"}


@pytest.mark.parametrize(("alpha", "lr", "sgd"), [(0.5, 9**-0.5, 1), (1.0, 1, 9)], ids=["depth-muP", "CompleteP"])
def test_factors_of_depth_are_those_of_the_tables(alpha: float, lr: float, sgd: float) -> None:
    """Yang et al. 2023, table 1; Dey et al. 2025, table 1: at nine times the base's depth and twice its width."""
    made = DepthMuP(base_width=8, base_head_size=4, base_depth=2, alpha=alpha)
    model = Decoder(vocab=7, width=16, depth=18, heads=2, head=Untied(), parametrization=made)
    scaling = model.scaling()
    assert scaling is not None and scaling.branch() == pytest.approx(9**-alpha)
    for path, axes in flat_axes(model, TOKENS).items():
        layer = path.startswith("layers/")
        hidden = part(path) == "hidden"
        output = part(path) == "output"
        adam, descent = (scaling.factors(axes, RULES[rule]) for rule in ("adam", "sgd"))
        assert adam.lr == pytest.approx((lr if layer else 1) * (0.5 if hidden else 1)), path
        assert adam.gradient == pytest.approx(2 * (9**alpha if layer else 1)), path
        assert descent.lr == pytest.approx((sgd if layer else 1) * (1 if hidden else 2)), (path, output)
    assert CompleteP(base_width=8, base_head_size=4, base_depth=2).alpha == 1


@pytest.mark.parametrize(("kind", "rule"), [(AdamW, "adam"), (Lion, "adam"), (SGD, "sgd")], ids=lambda v: str(v))
def test_optimizers_keep_the_factors(kind: Any, rule: str) -> None:
    """The second update at four times the base's width against the bare optimizer's, from the same gradients."""
    make, inputs = MODELS["decoder"]
    model = make(width=32, depth=1, heads=2, parametrization=MUP)
    axes, like = axes_of(model, inputs), shapes(model, inputs)["params"]
    params, grads = (jax.tree.map(lambda x, s=s: jnp.asarray(numbers(*x.shape, seed=s)), like) for s in (1, 2))
    small = jax.tree.map(lambda g: g / 4, grads)  # as they are at this width

    def updates(grads: Any, scaling: Scaling | None, decay: float, **fields: Any) -> dict[str, jax.Array]:
        optimizer = kind(schedule=Constant(), clip=None, weight_decay=decay, **fields)
        transform = optimizer.build(10, axes, 0, lambda path: scaling)
        _, state = transform.update(grads, transform.init(params), params)
        return flat_paths(transform.update(grads, state, params)[0])

    eps = {"eps": 1.0} if kind is AdamW else {}

    def compared(grads: Any, small: Any) -> Any:
        plain = updates(grads if eps else small, None, 0.0, **eps)
        return plain, *(updates(small, model.scaling(), decay, **eps) for decay in (0.0, 0.5))

    plain, scaled, decayed = jax.jit(compared)(grads, small)
    weights = flat_paths(params)
    for path in plain:
        expected = LR[rule][part(path)] * np.asarray(plain[path])
        np.testing.assert_allclose(scaled[path], expected, rtol=1e-4, atol=1e-7, err_msg=path)
        lost = 0.5 * kind().peak_lr * np.asarray(weights[path]) * (path.endswith(("kernel", "embedding")))
        np.testing.assert_allclose(scaled[path] - decayed[path], lost, rtol=1e-2, atol=1e-6, err_msg=path)


def test_scores_are_over_the_head_size() -> None:
    """Four times the base's head size: softmax(q . k * sqrt(4) / 16), which at a head size of 4 is q . k / sqrt(4)."""
    scaling = Scaling(head_size=4.0)
    attention = Attention(heads=2, kernel_init=KernelInit(scaling=scaling), use_bias=False)
    x = numbers(2, 5, 32)
    params = variables(attention, x, LayerContext())
    query, key, value, out = (params["params"][name]["kernel"] for name in ("query", "key", "value", "out"))
    heads = [np.einsum("bld,dhk->bhlk", x, kernel) for kernel in (query, key, value)]
    scores = np.einsum("bhlk,bhsk->bhls", heads[0], heads[1]) * 4**0.5 / 16
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhls,bhsk,hkd->bld", weights, heads[2], out)
    np.testing.assert_allclose(call(attention.apply, params, x, LayerContext()), expected, rtol=1e-4, atol=1e-5)


def test_heads_are_multiplied_and_their_biases_are_not() -> None:
    x, drawn = numbers(1, 3, 8), (Init(), Scaling(width=4.0))
    encoded = Encoded(x, embedding=numbers(5, 8))
    logits = x @ encoded.embedding.T / 4
    bias, kernel = np.arange(5.0, dtype=np.float32), numbers(8, 5, seed=3)
    np.testing.assert_allclose(call(Headed(Tied(), *drawn).apply, {}, encoded).dense(), logits, rtol=1e-5)
    biased = call(Headed(TiedBias(), *drawn).apply, {"params": {"head": {"bias": bias}}}, encoded).dense()
    np.testing.assert_allclose(biased, logits + bias, rtol=1e-5)
    own = {"params": {"head": {"linear": {"kernel": kernel}}}}
    np.testing.assert_allclose(call(Headed(Untied(), *drawn).apply, own, encoded).dense(), x @ kernel / 4, rtol=1e-5)
    own = {"params": {"kernel": kernel, "bias": bias}}
    classes = Linear((5,), ("classes",), kernel_init=KernelInit(scaling=drawn[1]))
    np.testing.assert_allclose(call(classes.apply, own, x), x @ kernel / 4 + bias, rtol=1e-5)


def test_branches_are_multiplied() -> None:
    def block(scaling: Scaling) -> PreNorm:
        drawn: dict[str, Any] = dict(kernel_init=KernelInit(scaling=scaling))
        attention, norm = Attention(heads=2, **drawn), LayerNorm()
        return PreNorm(mixer=attention, mlp=MLP(**drawn), norm=norm, dropout=0.0, scaling=scaling)

    x = numbers(2, 3, 8)
    params = variables(block(Scaling()), x, LayerContext())
    params["params"]["attention"]["out"] = jax.tree.map(np.zeros_like, params["params"]["attention"]["out"])
    whole, half = (call(block(m).apply, params, x, LayerContext()) for m in (Scaling(), Scaling(depth=4.0, alpha=0.5)))
    assert np.abs(whole - x).max() > 0.1
    np.testing.assert_allclose(half - x, (whole - x) / 2, rtol=1e-4, atol=1e-6)


BASES = {
    "configs/text/gpt_tiny.py": CompleteP(base_width=96, base_head_size=32, base_depth=4),
    "configs/text/moe_tiny.py": None,
    "configs/text/bert_pairs_tiny.py": None,
    "configs/vision/vit_digits.py": None,
    "configs/vision/mae_digits.py": None,
}


@pytest.mark.parametrize(
    "path", [path if "text/gpt" in path else pytest.param(path, marks=pytest.mark.slow) for path in BASES]
)
def test_at_the_base_the_program_is_the_standard_one(path: str, root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Initialisation and step lower to the same text, so a run is the same bit for bit."""
    monkeypatch.chdir(root)

    def program(parametrized: bool) -> list[str]:
        experiment = resolve(config.load(path, ["--config.mesh.data=1"]), Checks())
        model = experiment.model
        base = BASES[path] or MuP(base_width=model.width, base_head_size=model.width // model.heads)
        if parametrized:
            experiment = dataclasses.replace(experiment, model=model.clone(parametrization=base))
        with sharding.use_mesh(experiment.mesh, jax.devices()[:1]) as built:
            layout = build_layout(experiment, built)
            batch = batch_spec(experiment.data, experiment.batch_size)
            step = jax.jit(make_step(experiment, layout)).lower(layout.abstract, batch)
            return [jax.jit(layout.init).lower(jax.eval_shape(jax.random.key, 0)).as_text(), step.as_text()]

    standard, same = program(False), program(True)
    assert len(standard[0]) > 1000 and len(standard[1]) > 1000
    assert standard == same


@pytest.mark.parametrize("kind", [Adafactor, LARS, Muon], ids=lambda kind: kind.__name__)
def test_optimizers_without_a_rule_are_refused(kind: Any) -> None:
    model = Decoder(vocab=7, width=8, depth=1, heads=2, parametrization=MUP)
    with pytest.raises(UserError, match="config.optimizer: expected one of AdamW, Lion, SGD under MuP, got '"):
        kind().build(10, axes_of(model, TOKENS), 0, lambda path: model.scaling())


def test_depth_needs_blocks_that_do_not_normalise_the_stream() -> None:
    made = DepthMuP(base_width=8, base_head_size=4, base_depth=1)
    with pytest.raises(UserError, match="config.model.parametrization: .* got 'DepthMuP'"):
        shapes(Decoder(vocab=7, width=8, depth=1, heads=2, block=PostNorm(), parametrization=made), TOKENS)
