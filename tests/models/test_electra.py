"""ELECTRA: two encoders and what they share."""

import jax
import numpy as np
import pytest

from txjax.models import Bert, Deberta, Electra, GradientDisentangled, Separate, Shared
from txjax.nn import LayerNorm, Learned, RelativeEmbeddings, ReplacedTokens
from txjax.types import UserError

from made import call, shapes, variables

V = 11
TOKENS = np.random.default_rng(0).integers(0, V, (2, 5)).astype(np.int32)
TABLES = {"embed", "embed_types", "positions"}


def electra(width: int = 8, **fields: object) -> Electra:
    both = {"vocab": V, "depth": 1, "heads": 2, "positions": Learned(max_length=5)}
    discriminator = Bert(width=width, embed_width=8, head=ReplacedTokens(), **both)
    return Electra(**{"generator": Bert(width=8, **both), "discriminator": discriminator, **fields})


def gradients(model: Electra, params: dict) -> dict:
    """Of the discriminator's output, by the parameters."""

    def scores(params: dict) -> jax.Array:
        return (call(model.apply, params, TOKENS).scores ** 2).sum()

    return jax.jit(jax.grad(scores))(params)["params"]


def test_each_table_exists_once() -> None:
    params = shapes(electra(width=12), TOKENS)["params"]
    assert TABLES < set(params)
    for part in ("generator", "discriminator"):
        assert not TABLES & set(params[part]) and {"norm_embed", "layers", "transform"} <= set(params[part])
    assert params["discriminator"]["embed_in"]["kernel"].shape == (8, 12)
    apart = shapes(electra(sharing=Separate()), TOKENS)["params"]
    assert TABLES < set(apart) and TABLES < set(apart["discriminator"])


def test_relative_positions_are_not_shared_even_if_their_template_is() -> None:
    template = {"positions": RelativeEmbeddings(max_distance=4, norm=LayerNorm())}
    both = {"vocab": V, "width": 8, "depth": 1, "heads": 2, **template}
    params = shapes(Electra(generator=Deberta(**both), discriminator=Deberta(**both, head=ReplacedTokens())), TOKENS)
    for part in ("generator", "discriminator"):
        assert set(params["params"][part]["positions"]) == {"table", "norm_table"}


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
    ],
)
def test_encoders_that_do_not_fit_are_named(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(electra(**fields), TOKENS)
