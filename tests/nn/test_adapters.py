"""Adapters: the model itself at first, found by path, the same under every layout, merged into plain kernels."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.core import meta
from test_contracts import MODELS, describe, drawn, first_pair, fitted

from txjax import sharding
from txjax.axes import axes_of
from txjax.decoding import empty_cache
from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, PairFeatures, Quantised, Stack
from txjax.nn.adapters import (
    IA3,
    Adapter,
    BitFit,
    Bottleneck,
    DeepPrompt,
    DoRA,
    LoRA,
    MLPPrefix,
    PixelPrompt,
    Prefix,
    Prompt,
    RsLoRA,
    merge,
)
from txjax.objectives import MultiTask
from txjax.optim import AdamW, Constant, train_adapter
from txjax.parametrization import MuP, Standard, scaling_by_path
from txjax.sharding import Mesh
from txjax.train.state.counting import flops_per_step
from txjax.train.state.state import build_layout
from txjax.train.state.subtrees import pick
from txjax.tree import walk
from txjax.types import UserError, flat_paths

from helpers import tiny_experiments
from helpers.arrays import dense, filled, shapes, variables
from selection import per_family

pytestmark = pytest.mark.claim(
    "Transfer",
    "adapters: the model at first, every layout, merged kernels equal to 1e-6, exported",
)

TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 7, (4, 6)), jnp.int32)
EVERY = ".*"
KINDS: dict[str, Adapter] = {
    "lora": LoRA(paths=EVERY, rank=2),
    "rslora": RsLoRA(paths=EVERY, rank=2),
    "dora": DoRA(paths=EVERY, rank=2),
    "ia3": IA3(paths=EVERY, inputs=".*(down|out|conv_2)"),
    "bottleneck": Bottleneck(paths=EVERY, size=3),
}


def decoder(adapter: Adapter | None, **fields: Any) -> Decoder:
    return Decoder(**{"vocab": 7, "width": 8, "depth": 2, "heads": 2, "adapter": adapter} | fields)


def boxed(model: Any, **inputs: Any) -> Any:
    """The shapes of its variables, with their axes."""
    return jax.eval_shape(lambda: model.init(jax.random.key(0), **inputs))


def axes(boxed: Any) -> Any:
    return jax.tree.map(axes_of, boxed["params"], is_leaf=lambda node: isinstance(node, meta.AxisMetadata))


def test_factors_of_the_rank() -> None:
    """alpha / r, and of rsLoRA alpha / sqrt(r)."""
    found = {kind: kind(rank=4, alpha=6.0).factor for kind in (LoRA, DoRA, RsLoRA)}
    assert found == {LoRA: 1.5, DoRA: 1.5, RsLoRA: 3.0}


@pytest.mark.slow
def test_an_adapted_model_starts_as_the_model() -> None:
    """The model's own parameters are the same draws, and the logits the same numbers."""

    @jax.jit
    def drawn() -> Any:
        found = {}
        for name, adapter in {"plain": None, **KINDS}.items():
            made = meta.unbox(decoder(adapter).init(jax.random.key(1, impl="rbg"), TOKENS))
            found[name] = flat_paths(made), decoder(adapter).apply(made, TOKENS).dense()
        return found

    found = drawn()
    plain, logits = found.pop("plain")
    for name, (adapted, same) in found.items():
        np.testing.assert_array_equal(logits, same)
        for path, x in plain.items():
            np.testing.assert_array_equal(x, adapted[path], err_msg=path)
        new = {path: x for path, x in adapted.items() if path not in plain}
        parts = ("inputs",) if name == "ia3" else ("down/kernel", "up/kernel")
        inside = f"params/layers/block/attention/out/{KINDS[name].name}"
        assert {f"{inside}/{part}" for part in parts} <= new.keys()
        for path, x in new.items():
            assert x.any() == path.endswith("down/kernel"), path


def continuous(output: Any) -> Any:
    """The output without what no kernel changes: a tokenizer's codes, the scale and bias of cosines."""
    if isinstance(output, PairFeatures):
        return output.image, output.text
    return (output.image, output.features) if isinstance(output, Quantised) else dense(output)


@per_family("name", describe, seconds=5, cover=False, least=4)
@pytest.mark.parametrize(
    "name", [name if name == "Decoder" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_merged_kernels_are_the_adapted_model(name: str) -> None:
    """LoRA, DoRA and (IA)3 on every Linear and Conv of every model, where products have a parametrization's factors."""
    pair = first_pair(name)
    model, objective = pair.model, pair.objective
    if isinstance(objective, MultiTask):
        (task, objective), *_ = objective.tasks.items()
        model = model.for_task(task)
    scaled = Standard() if name == "BiT" else MuP(base_width=2, base_head_size=2)  # no rule for standardised kernels
    plain = model.clone(parametrization=scaled)
    inputs = objective.inputs(model, fitted(model, objective, 1, 2, 3))
    wanted = shapes(plain, **inputs)["params"]
    call = jax.jit(lambda variables: continuous(plain.apply(variables, **inputs)))
    for method, error in (("lora", 1e-6), ("dora", 2e-5), ("ia3", 1e-6)):  # DoRA's norms are rounded too
        adapted = plain.clone(adapter=KINDS[method])
        drawn = boxed(adapted, **inputs)
        made = jax.tree.map(jnp.asarray, filled(meta.unbox(drawn)))
        one, output = run_and_merge(adapted, axes(drawn), inputs)(made)
        assert jax.tree.map(jnp.shape, one) == jax.tree.map(jnp.shape, wanted)
        same, unlike = (
            call(made | {"params": params}) for params in (one, pick(made["params"], flat_paths(wanted).__contains__))
        )
        check_merged(output, same, unlike, error)


def run_and_merge(adapted: Any, axes: Any, inputs: Any) -> Any:
    """A function of the variables: the merged parameters and the model's output."""

    def run(variables: Any) -> Any:
        rest, one = merge(adapted.adapter, variables["params"], axes, scaling_by_path(adapted.scalings()))
        assert rest is None
        return one, continuous(adapted.apply(variables, **inputs))

    return jax.jit(run)


def check_merged(adapted: Any, same: Any, unlike: Any, error: float) -> None:
    """The first two outputs are the same, the third is another."""
    for a, b, other in zip(*map(jax.tree.leaves, (adapted, same, unlike)), strict=True):
        if not jnp.issubdtype(a.dtype, jnp.floating):
            continue  # the tokens that Electra's discriminator was given
        size = np.abs(a).max()
        np.testing.assert_allclose(a, b, atol=error * max(size, 1), rtol=1e-5)
        assert np.abs(a - other).max() > 1e-3 * size


PROMPTS: dict[str, Adapter] = {
    "prompt": Prompt(length=2),
    "deep": DeepPrompt(length=2),
    "prefix": Prefix(length=2),
    "mlp": MLPPrefix(length=2, hidden=3),
    "bottleneck": KINDS["bottleneck"],
    "pixels": PixelPrompt(width=1),
}
# Models without prompts of the stack: a layer keeps two streams, or convolves over the positions.
PROMPTLESS = {"ReversibleDecoder", "Branchformer", "Conformer"}
PIXELLESS = {"ViLBERT"}  # it reads regions of an image, which may be those of a detector


@per_family("name", describe, seconds=5, cover=False, least=4)
@pytest.mark.parametrize(
    "name", [name if name == "Decoder" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_every_method_trains_every_model_that_it_is_for(name: str) -> None:
    """A step's gradient of the method's parameters alone; a model without such modules is refused in one line."""
    pair = first_pair(name)
    model, objective = pair.model, pair.objective
    batch = fitted(model, objective, 1, 2, 3)
    own = flat_paths(meta.unbox(pair.boxed["params"]))
    biased = any(re.fullmatch(BitFit().trained, path) for path in own)  # which adds nothing that could be traced
    assert biased == (name != "RecurrentEncoderDecoder")
    for method, adapter in PROMPTS.items():
        adapted = model.clone(adapter=adapter)

        def loss(chosen: Any, rest: Any, adapted: Any = adapted) -> jax.Array:
            params = traverse_util.unflatten_dict(rest.pop("params") | chosen, sep="/")
            seen = objective(adapted, {"params": params, **rest}, batch, jax.random.key(0), train=True)
            return sum(mean.total / mean.count for mean in seen.losses.values())

        try:
            made = meta.unbox(drawn(adapted, objective, batch))
        except UserError as error:
            assert "the path of a module" in str(error)
            attends = any(isinstance(x, Attention) for _, x in walk(model, ""))
            refused = {
                "stack": name in PROMPTLESS or (not attends and name != "RecurrentEncoderDecoder"),
                "attention": not attends,
                "image": name in PIXELLESS or not any(key.endswith("image") for key in objective.inputs(model, batch)),
            }
            assert refused.get(adapter.of, False), method
            continue
        flat = flat_paths(made.pop("params"))
        chosen = {path: x for path, x in flat.items() if re.fullmatch(adapter.trained, path)}
        rest = {"params": {path: x for path, x in flat.items() if path not in chosen}, **made}
        graded = jax.eval_shape(jax.grad(loss), chosen, rest)
        assert chosen and jax.tree.map(jnp.shape, graded) == jax.tree.map(jnp.shape, chosen)


@pytest.mark.slow
def test_tokens_decoded_one_by_one_are_adapted_too() -> None:
    model = decoder(LoRA(rank=2))
    params = variables(model, TOKENS)["params"]

    @jax.jit
    def run(params: Any) -> Any:
        cache, steps = empty_cache(model, {"params": params}, {"tokens": TOKENS[:, :1]}, TOKENS.shape[1] - 1), []
        for i in range(TOKENS.shape[1]):
            given = {"params": params, "cache": cache}
            logits, state = model.apply(given, TOKENS[:, i : i + 1], mutable=["cache"])
            cache = state["cache"]
            steps.append(logits.dense())
        return jnp.concatenate(steps, 1), model.apply({"params": params}, TOKENS).dense()

    one_by_one, whole = run(jax.tree.map(jnp.asarray, params))
    np.testing.assert_allclose(one_by_one, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.mesh
@pytest.mark.parametrize(
    "mesh",
    [Mesh(data=2, pipeline=2, tensor=2), pytest.param(Mesh(data=1, fsdp=4, tensor=2), marks=pytest.mark.slow)],
    ids=["pipeline", "fsdp"],
)
@pytest.mark.parametrize(
    "adapter", [LoRA(paths=".*(query|out|down)", rank=2), DeepPrompt(length=2), MLPPrefix(length=4, hidden=6)]
)
def test_layouts_change_nothing(mesh: Mesh, adapter: Adapter) -> None:
    """Outputs and gradients on eight devices, in stages of a pipeline too, under rematerialisation."""
    model = decoder(adapter, stack=Stack(remat="full"))
    params = variables(model, TOKENS)["params"]

    def loss(params: Any) -> jax.Array:
        return jnp.square(model.apply({"params": params}, TOKENS).dense()).mean()

    graded = jax.value_and_grad(loss)
    want = jax.jit(graded)(params)
    with sharding.use_mesh(mesh):
        got = jax.jit(lambda p: graded(p))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), got, want)


def test_only_adapters_are_trained_and_counted() -> None:
    """Two thirds of the FLOPs are left: the gradients of the frozen kernels are never computed."""
    found = {}
    for name, groups in {"all": None, "lora": train_adapter()}.items():
        optimizer = AdamW(schedule=Constant(), **({"groups": groups} if groups else {}))
        model = decoder(LoRA(rank=1), vocab=256, width=32, depth=3)
        experiment = tiny_experiments.decoder(model=model, optimizer=optimizer)
        with sharding.use_mesh(experiment.mesh) as built:
            layout = build_layout(experiment, built)
            found[name] = flops_per_step(experiment, layout.variables)
    assert {path.split("/")[-3] for path in flat_paths(layout.abstract.params)} == {"lora"}
    assert "embed" in layout.abstract.frozen and layout.abstract.opt_state
    assert 0.6 < found["lora"] / found["all"] < 0.7


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        (LoRA(paths="layers/block/attention/quary"), "a module, got '.*'; did you mean layers/block/attention/query"),
        (LoRA(paths="("), "a regular expression"),
    ],
)
def test_a_pattern_that_adapts_nothing_is_refused(adapter: Adapter, words: str) -> None:
    with pytest.raises(UserError, match=f"config.model.adapter.paths: expected .*{words}"):
        shapes(decoder(adapter), TOKENS)


@pytest.mark.parametrize("adapter", [Bottleneck(), Prompt(), DeepPrompt(), Prefix()])
def test_what_is_no_change_of_kernels_is_not_merged(adapter: Adapter) -> None:
    model, name = decoder(adapter), type(adapter).__name__
    params = shapes(model, TOKENS)["params"]
    with pytest.raises(UserError, match=f"config.model.adapter: expected an adapter that can be merged.*'{name}'"):
        merge(adapter, params, axes(boxed(model, tokens=TOKENS)), lambda path: None)


def test_bitfit_merges_to_the_model_as_it_is() -> None:
    params = shapes(decoder(BitFit()), TOKENS)["params"]
    assert merge(BitFit(), params, axes(boxed(decoder(None), tokens=TOKENS)), lambda path: None) == (None, params)
    with pytest.raises(UserError, match="the path of a module, got 'layers/.*quary'; did you mean layers/block/"):
        shapes(decoder(BitFit(paths="layers/.*quary")), TOKENS)


@pytest.mark.slow
def test_dropout_is_of_the_branch_alone_and_in_training() -> None:
    model = decoder(LoRA(rank=2, dropout=0.5))
    params = jax.tree.map(jnp.asarray, variables(model, TOKENS))
    still = dataclasses.replace(model.adapter, dropout=0.0)

    @jax.jit
    def run(params: Any) -> Any:
        trained = model.apply(params, TOKENS, train=True, rngs={"dropout": jax.random.key(0)}).dense()
        return trained, model.apply(params, TOKENS).dense(), decoder(still).apply(params, TOKENS).dense()

    trained, evaluated, without = run(params)
    np.testing.assert_array_equal(evaluated, without)
    assert np.abs(trained - evaluated).max() > 1e-3
