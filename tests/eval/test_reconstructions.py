"""The picture of a masked autoencoder has the right pixels."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from txjax.eval import Reconstructions
from txjax.eval.images.reconstructions import GREY, unnormalise
from txjax.eval.pictures import GAP, SIDE, grid
from txjax.experiment import Experiment
from txjax.nn import Quantised
from txjax.objectives import Classification, MaskedPatch, VQReconstruction
from txjax.objectives.masked_patch import normalise_patches
from txjax.train.check import check
from txjax.types import UserError

from helpers.arrays import call, numbers
from helpers.evaluations import IMAGES, Net, Painter, Pictures, measure


def tiles(content: bytes, rows: int, columns: int) -> np.ndarray:
    """The images of a picture, one number per pixel, [rows columns 4 4]."""
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGBA"))
    margin = picture.shape[1] - columns * (SIDE + GAP) + GAP
    assert picture.shape[0] == rows * (SIDE + GAP) - GAP and picture[:, margin:][:, SIDE : SIDE + GAP, 3].max() == 0
    cut = [
        [picture[y * (SIDE + GAP) :, margin + x * (SIDE + GAP) :][:SIDE, :SIDE] for x in range(columns)]
        for y in range(rows)
    ]
    whole = np.array(cut)
    assert (whole[..., 3] == 255).all()
    found = whole[:, :, :: SIDE // 4, :: SIDE // 4]
    np.testing.assert_array_equal(np.repeat(np.repeat(found, SIDE // 4, 2), SIDE // 4, 3), whole)
    assert (found[..., 0] == found[..., 1]).all() and (found[..., 0] == found[..., 2]).all()
    return found[..., 0].astype(int)


def bytes_of(images: np.ndarray) -> np.ndarray:
    return np.round(255 * np.clip(images * 0.2 + 0.4, 0, 1))[..., 0].astype(int)


@pytest.mark.parametrize("target", ["normalised", "pixels"])
def test_masked_reconstructed_original(tmp_path, target):
    objective = MaskedPatch(rate=0.5, target=target)
    count = 18  # more than a batch
    evaluation = Reconstructions(data=Pictures(), count=count)
    assert measure(Painter(target), objective, evaluation, folder=tmp_path) == {}
    masked, painted, original = tiles((tmp_path / "pictures" / "x" / "7.png").read_bytes(), 3, count)
    np.testing.assert_array_equal(original, bytes_of(IMAGES[:count]))
    # A model with the true patches reconstructs them; one without gives each hidden patch its mean, or nothing.
    assert np.abs(painted - original).max() <= 1
    batch = {"id": jnp.arange(count), "image": jnp.asarray(IMAGES[:count])}
    seen = np.zeros((count, 4, 1), bool)
    for i, kept in enumerate(np.asarray(objective.keep(jax.random.key(0), batch, 2, 2))):
        seen[i, kept] = True
    seen = seen.reshape(count, 2, 1, 2, 1).repeat(2, 2).repeat(2, 4).reshape(count, 4, 4)
    np.testing.assert_array_equal(masked[seen], original[seen])
    assert (masked[~seen] == round(255 * GREY)).all() and seen.sum() == (~seen).sum()
    nothing = {"params": {"scale": jnp.zeros(())}}
    measure(Painter(target), objective, evaluation, nothing, folder=tmp_path)
    painted = tiles((tmp_path / "pictures" / "x" / "7.png").read_bytes(), 3, count)[1]
    flat = IMAGES[:count].reshape(count, 2, 2, 2, 2).mean((2, 4)).repeat(2, 1).repeat(2, 2)
    expected = bytes_of((flat if target == "normalised" else flat * 0)[..., None])
    np.testing.assert_array_equal(painted[seen], original[seen])
    assert np.abs(painted - expected)[~seen].max() <= 1


class Halved:
    """An autoencoder whose images are half the originals."""

    def apply(self, variables, image, train):
        return Quantised(image / 2, image, image, image)


def test_decoded_original(tmp_path):
    evaluation = Reconstructions(data=Pictures(), count=3)
    assert measure(Halved(), VQReconstruction(), evaluation, folder=tmp_path) == {}
    painted, original = tiles((tmp_path / "pictures" / "x" / "7.png").read_bytes(), 2, 3)
    np.testing.assert_array_equal(original, bytes_of(IMAGES[:3]))
    assert np.abs(painted - bytes_of(IMAGES[:3] / 2)).max() <= 1


def test_unnormalised_undoes_normalised():
    patches = numbers(3, 4, 12)
    np.testing.assert_allclose(call(unnormalise, normalise_patches(jnp.asarray(patches)), patches), patches, atol=1e-5)


def test_large_and_coloured_images_keep_their_pixels():
    images = np.random.default_rng(0).random((2, 120, 100, 3)).astype(np.float32)
    picture = np.asarray(Image.open(io.BytesIO(grid({"a": images}))))
    np.testing.assert_array_equal(picture[:, -100:, :3], np.round(255 * images[1]))


def test_user_errors():
    evals = {"x": Reconstructions(data=Pictures())}
    with pytest.raises(UserError, match=r"config.evals.x: expected a run whose objective is MaskedPatch or VQRec"):
        check(Experiment(model=Net(), objective=Classification(), data=Pictures(), evals=evals, batch_size=16))
