"""The encoder-decoder: equal to PyTorch's, decoded step by step, the source encoded once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.flops import count
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import MLP, NoPositions, Rotary, Stack
from txjax.parametrization import CompleteP
from txjax.types import UserError

from helpers.arrays import forward, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "the encoder-decoder equals PyTorch's, decodes step by step, reads its source once; FLOPs of a token; its program "
    "is as long at any depth",
)

V = 11
L = 5
S = 7
SIZES: dict[str, Any] = {"vocab": V, "width": 8, "depth": 2, "heads": 2}


def ids(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, V, shape), jnp.int32)


TOKENS, SOURCE = ids(2, L), ids(2, S, seed=1)
REAL = jnp.asarray([[1] * S, [1] * 4 + [0] * (S - 4)], jnp.int32)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_it_equals_pytorch() -> None:
    """`nn.Transformer` with pre-norm layers, with padding in the source."""
    torch = pytest.importorskip("torch")
    model = EncoderDecoder(**SIZES, encoder_depth=1, positions=NoPositions(), mlp=MLP(activation="relu", hidden=16))
    params = variables(model, TOKENS, SOURCE, REAL)
    p = params["params"]
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 16, "dropout": 0.0}
    theirs = torch.nn.Transformer(8, 2, **sizes, activation="relu", batch_first=True, norm_first=True).eval()

    def tensor(x: Any) -> Any:
        return torch.tensor(np.array(x, np.float32))

    def attention(own: dict, layer: int, name: str) -> dict[str, Any]:
        def rows(part: str, kind: str) -> np.ndarray:
            x = np.asarray(own[part][kind][layer])
            return x.reshape(8, 8).T if kind == "kernel" else x.reshape(8)

        parts = "query", "key", "value"
        return {
            f"{name}.in_proj_weight": tensor(np.concatenate([rows(part, "kernel") for part in parts])),
            f"{name}.in_proj_bias": tensor(np.concatenate([rows(part, "bias") for part in parts])),
            f"{name}.out_proj.weight": tensor(own["out"]["kernel"][layer].reshape(8, 8).T),
            f"{name}.out_proj.bias": tensor(own["out"]["bias"][layer]),
        }

    def layers(side: str, attentions: dict[str, str], norms: dict[str, str]) -> dict[str, Any]:
        block, found = p[side]["layers"]["block"], {}
        for i in range(len(block["mlp"]["up"]["bias"])):
            own: dict[str, Any] = {}
            for ours, name in attentions.items():
                own |= attention(block[ours], i, name)
            for ours, name in norms.items():
                own |= {
                    f"{name}.weight": tensor(block[ours]["scale"][i]),
                    f"{name}.bias": tensor(block[ours]["bias"][i]),
                }
            for ours, name in (("up", "linear1"), ("down", "linear2")):
                own |= {
                    f"{name}.weight": tensor(np.asarray(block["mlp"][ours]["kernel"][i]).T),
                    f"{name}.bias": tensor(block["mlp"][ours]["bias"][i]),
                }
            found |= {f"{side}.layers.{i}.{name}": x for name, x in own.items()}
        norm = p[side]["norm_final"]
        return found | {f"{side}.norm.weight": tensor(norm["scale"]), f"{side}.norm.bias": tensor(norm["bias"])}

    state = layers("encoder", {"attention": "self_attn"}, {"norm_attention": "norm1", "norm_mlp": "norm2"})
    crossed = {"attention": "self_attn", "cross": "multihead_attn"}
    norms = {"norm_attention": "norm1", "norm_cross": "norm2", "norm_mlp": "norm3"}
    theirs.load_state_dict(state | layers("decoder", crossed, norms))
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = model.norm.eps
    table, hidden = tensor(p["embed"]["embedding"]), torch.tensor(np.asarray(REAL) == 0)
    with torch.no_grad():
        source, target = (table[torch.tensor(np.asarray(x), dtype=torch.long)] for x in (SOURCE, TOKENS))
        causal = torch.nn.Transformer.generate_square_subsequent_mask(L)
        masks = {"src_key_padding_mask": hidden, "memory_key_padding_mask": hidden, "tgt_mask": causal}
        want = theirs(source, target, **masks) @ table.T
    got = forward(model)(params, TOKENS, SOURCE, REAL)
    np.testing.assert_allclose(got, want.numpy(), atol=2e-5)


def test_decoding_step_by_step_reads_the_source_once() -> None:
    model = EncoderDecoder(**SIZES, positions=Rotary())
    params = variables(model, TOKENS, SOURCE, REAL)
    want = forward(model)(params, TOKENS, SOURCE, REAL)

    def call(cache: Any, **inputs: Any) -> tuple[Any, Any]:
        output, changed = model.apply({**params, "cache": cache}, **inputs, mutable=["cache"])
        return output.dense(), changed["cache"]

    given = {"source_tokens": SOURCE, "source_segments": REAL}
    whole = jax.eval_shape(lambda: call({}, tokens=TOKENS, **given))[1]
    cache = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), whole)
    first, cache = jax.jit(call)(cache, tokens=TOKENS[:, :2], **given)
    rows, step = [first], jax.jit(call)
    for i in range(2, L):
        logits, cache = step(cache, tokens=TOKENS[:, i : i + 1])
        rows.append(logits)
    np.testing.assert_allclose(jnp.concatenate(rows, 1), want, atol=1e-5)


def test_a_decoded_token_costs_nothing_of_the_memory_but_its_attention() -> None:
    """FLOPs of a step over two lengths of the source differ by 4 B S D a layer: scores and weighted values."""
    model = EncoderDecoder(**SIZES)
    params = shapes(model, TOKENS, SOURCE)

    def step(length: int) -> int:
        source, token = jnp.zeros((2, length), jnp.int32), TOKENS[:, :1]

        def call(params: Any, cache: Any, **inputs: Any) -> Any:
            output, changed = model.apply({**params, "cache": cache}, **inputs, mutable=["cache"])
            return output.dense(), changed["cache"]

        cache = jax.eval_shape(lambda p: call(p, {}, tokens=TOKENS, source_tokens=source), params)[1]
        return count(call, params, cache, tokens=token)

    assert step(2 * S) - step(S) == model.depth * 4 * 2 * S * model.width


def test_packed_pairs_see_their_own_source() -> None:
    model = EncoderDecoder(**SIZES)
    pairs, own = jnp.asarray([[1, 1, 2, 2, 2]] * 2), jnp.asarray([[1, 1, 1, 2, 2, 2, 2]] * 2)
    at = jnp.asarray([[0, 1, 0, 1, 2]] * 2)
    given = {"source_tokens": SOURCE, "source_segments": own, "segments": pairs, "positions": at}
    params = variables(model, TOKENS, **given)
    run = forward(model)
    got = run(params, TOKENS, **given)
    other = run(params, TOKENS, **given | {"source_tokens": SOURCE.at[:, 3:].set(ids(2, 4, seed=5))})
    np.testing.assert_array_equal(got[:, :2], other[:, :2])
    assert not np.allclose(got[:, 2:], other[:, 2:])


def test_a_source_is_needed() -> None:
    with pytest.raises(UserError, match=r"config\.objective: expected an objective that gives the model source_tokens"):
        shapes(EncoderDecoder(**SIZES), TOKENS)


def test_an_encoder_of_another_depth_has_its_own_scaling() -> None:
    """In the optimizer as in the layers."""
    model = EncoderDecoder(
        **SIZES, encoder_depth=4, parametrization=CompleteP(base_width=8, base_head_size=4, base_depth=1)
    )
    found = model.scalings()
    assert (found[""].depth, found["encoder"].depth) == (2.0, 4.0)
    params = shapes(model, TOKENS, SOURCE)["params"]
    assert len(params["encoder"]["layers"]["block"]["mlp"]["up"]["bias"]) == 4


def test_its_program_is_as_long_at_any_depth() -> None:
    """Where layers are looped, as on accelerators, for both stacks and their gradient."""

    def lines(depth: int) -> int:
        model = EncoderDecoder(**SIZES | {"depth": depth}, stack=Stack(unroll=1))

        def loss(params: Any) -> Any:
            return model.apply(params, TOKENS, SOURCE).dense().sum()

        return len(jax.jit(jax.grad(loss)).lower(shapes(model, TOKENS, SOURCE)).as_text().splitlines())

    assert lines(2) == lines(8)
