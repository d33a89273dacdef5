"""Position vectors, their similarity, and filters of the first projection."""

import jax.numpy as jnp
import numpy as np

from txjax.models.text.decoder import Decoder
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Grid, Learned, Rotary, Sinusoidal
from txjax.report.inspection.first_layer import cosine_similarity, first_filters, position_vectors, principal_filters

from helpers.arrays import numbers


def test_cosines_by_hand() -> None:
    found = cosine_similarity(jnp.asarray([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 0]], atol=1e-6)


def test_learned_and_fixed_position_vectors() -> None:
    table = jnp.asarray(numbers(9, 8))
    params = {"stages_1": {"positions": {"table": {"embedding": table}}}, "head": {"kernel": table}}
    learned = ViT(patch=4, width=8, depth=1, heads=2, positions=Learned(max_length=9))
    found = position_vectors(learned, params, 5, None)
    np.testing.assert_array_equal(found.pop("stages_1/positions"), table[:5])
    assert not found
    assert position_vectors(learned, params, 5, None, {"stages_1": 3})["stages_1/positions"].shape == (3, 8)
    sines = position_vectors(MAE(patch=4, width=8, depth=1, heads=2), {}, 5, Grid(2, 2, 1))["positions"]
    assert not sines[0].any() and np.allclose(np.square(sines[1:]).sum(-1), 4)  # none for the class token
    waves = position_vectors(Decoder(vocab=5, width=8, depth=1, heads=2, positions=Sinusoidal()), {}, 4, None)
    np.testing.assert_allclose(waves["positions"][:, 0], np.sin(np.arange(4)), atol=1e-6)
    assert not position_vectors(Decoder(vocab=5, width=8, depth=1, heads=2, positions=Rotary()), {}, 4, None)


def test_filters_of_linear_and_convolutional_stems() -> None:
    kernel = jnp.asarray(numbers(2 * 2 * 3, 5))
    path, found = first_filters({"layers": {"kernel": kernel}, "patch_embed": {"kernel": kernel}}, 3)
    assert path == "patch_embed/kernel"
    np.testing.assert_array_equal(found[1].ravel(), kernel[:, 1])  # row, column, channel
    conv = jnp.asarray(numbers(3, 3, 1, 4))
    path, found = first_filters({"image": {"stem": {"kernel": conv}}}, 1)
    assert path == "image/stem/kernel"
    np.testing.assert_array_equal(found[2], conv[..., 2])
    assert first_filters({"embed": {"embedding": kernel}}, 3) is None


def test_principal_filters() -> None:
    """Filters that are multiples of one picture around a mean have one component."""
    direction = np.asarray([[0.6, 0.8], [0.0, 0.0]], np.float32)
    filters = np.arange(5, dtype=np.float32)[:, None, None] * direction + 7
    components, shares = principal_filters(jnp.asarray(filters)[..., None])
    np.testing.assert_allclose(shares, [1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.abs(components[0, ..., 0]), direction, atol=1e-6)
