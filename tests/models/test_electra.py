"""ELECTRA: two encoders and what they share."""

from typing import Any

import jax
import numpy as np
import pytest

from txjax.models.text.bert import Bert
from txjax.models.text.electra import Electra, GradientDisentangled, Separate, Shared
from txjax.models.text.electra.card import CARD
from txjax.models.text.electra.card import electra as published_electra
from txjax.nn import Learned, ReplacedTokens, Rotary
from txjax.types import UserError

from helpers.arrays import call, forward, parameter_count, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "ELECTRA: which tables exist once, who trains them; an encoder alone computes the same",
)

V = 11
TOKENS = np.random.default_rng(0).integers(0, V, (2, 5)).astype(np.int32)
TABLES = {"embed", "embed_types", "positions"}


def electra(width: int = 8, **fields: object) -> Electra:
    def encoder(**own: Any) -> Bert:
        return Bert(vocab=V, depth=1, heads=2, positions=Learned(max_length=5), **own)

    discriminator = encoder(width=width, embed_width=8, head=ReplacedTokens())
    return Electra(**{"generator": encoder(width=8), "discriminator": discriminator, **fields})


def small(**fields: Any) -> Bert:
    sizes: dict[str, Any] = dict(vocab=V, width=8, depth=1, heads=2)
    return Bert(**sizes | {"positions": Learned(max_length=5)} | fields)


def gradients(model: Electra, params: dict) -> dict:
    """Of the discriminator's output, by the parameters."""

    def scores(params: dict) -> jax.Array:
        return (call(model.apply, params, TOKENS).scores ** 2).sum()

    return jax.jit(jax.grad(scores))(params)["params"]


def test_each_table_exists_once() -> None:
    params = shapes(electra(width=12), TOKENS)["params"]
    assert set(params) > TABLES
    for part in ("generator", "discriminator"):
        assert not TABLES & set(params[part]) and {"norm_embed", "layers", "transform"} <= set(params[part])
    assert params["discriminator"]["embed_in"]["kernel"].shape == (8, 12)
    apart = shapes(electra(sharing=Separate()), TOKENS)["params"]
    assert set(apart) > TABLES and set(apart["discriminator"]) > TABLES


@pytest.mark.slow
def test_who_trains_the_shared_table() -> None:
    """Both losses; with gradient disentanglement the discriminator trains what it adds, which is zero at first."""
    model = electra(sharing=Shared())
    params = variables(model, TOKENS)
    found = gradients(model, params)
    assert np.any(found["embed"]["embedding"]) and not np.any(found["generator"]["transform"]["kernel"])
    apart = model.clone(sharing=GradientDisentangled())
    params["params"]["embed_difference"] = {"embedding": np.zeros((V, 8), np.float32)}
    of_apart = gradients(apart, params)
    assert not np.any(of_apart["embed"]["embedding"])
    np.testing.assert_allclose(of_apart["embed_difference"]["embedding"], found["embed"]["embedding"], rtol=1e-5)
    drawn = jax.jit(lambda: call(apart.init, jax.random.key(0), TOKENS)["params"])()
    assert not np.any(drawn["embed_difference"]["embedding"].value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"discriminator": Bert(vocab=V, width=6, depth=1, heads=2)}, "discriminator.embed_width: expected 8, .*got 6"),
        ({"discriminator": Bert(vocab=7, width=8, depth=1, heads=2)}, "discriminator.vocab: expected 11, .*got 7"),
        ({"discriminator": small(types=None)}, "discriminator.types: expected 2, as the generator's, .*got None"),
        ({"discriminator": small(positions=Rotary())}, r"discriminator.positions: expected .*Learned.*, got None"),
        ({"discriminator": small()}, r"discriminator.head: expected ReplacedTokens\(\), got 'MaskedTokens'"),
        ({"discriminator": small(heads=3)}, "discriminator.heads: expected .*got 3"),
        ({"generator": small(heads=3)}, "generator.heads: expected .*got 3"),
        ({"generator": small(head=ReplacedTokens())}, r"generator.head: expected MaskedTokens\(\), got 'Replaced"),
        ({"generator": small(head=None)}, r"generator.head: expected MaskedTokens\(\), got 'NoneType'"),
    ],
)
def test_encoders_that_do_not_fit_are_named(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(electra(**fields), TOKENS)


@pytest.mark.parametrize("sharing", [Shared(), GradientDisentangled()], ids=["shared", "disentangled"])
def test_an_encoder_alone_computes_the_same(sharing: Shared) -> None:
    model = electra(sharing=sharing)
    params = variables(model, TOKENS)
    whole = forward(model)(params, TOKENS)
    for part, wanted in (("generator", whole.predicted), ("discriminator", whole.scores)):
        encoder, own = model.alone(part, params["params"])
        assert jax.tree.structure(own) == jax.tree.structure(shapes(encoder, TOKENS)["params"])
        found = forward(encoder)({"params": own}, TOKENS)
        np.testing.assert_allclose(found[0] if part == "generator" else found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "discriminator", "generator"),
    [
        ("small", 13_549_057, 4_620_026),
        ("base", 109_483_009, 33_740_602),
        ("large", 335_142_913, 51_295_290),
    ],
)
def test_each_network_is_counted_with_its_head(size: str, discriminator: int, generator: int) -> None:
    model = published_electra(size)
    assert parameter_count(model.discriminator, TOKENS) == discriminator
    assert parameter_count(model.generator, TOKENS) == generator


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
@pytest.mark.parametrize("size", CARD.presets[0].sizes)
def test_the_reference_counts_the_same(size: str) -> None:
    """Two models of the reference, whose three tables exist once."""
    torch, transformers = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    model = published_electra(size)
    networks = {"ElectraForMaskedLM": model.generator, "ElectraForPreTraining": model.discriminator}
    with torch.device("meta"):
        generator, discriminator = (
            getattr(transformers, name)(
                transformers.ElectraConfig(
                    hidden_size=network.width,
                    num_hidden_layers=network.depth,
                    num_attention_heads=network.heads,
                    embedding_size=network.embed_width or network.width,
                    intermediate_size=4 * network.width,
                )
            )
            for name, network in networks.items()
        )
    for table in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        setattr(discriminator.electra.embeddings, table, getattr(generator.electra.embeddings, table))
    generator.tie_weights()
    both = torch.nn.ModuleList([generator, discriminator])
    assert sum(x.numel() for x in both.parameters()) == CARD.presets[0].sizes[size].parameters
