"""What an inspection finds of models of several kinds, and the pictures of it."""

from typing import Any

import jax
import numpy as np
import pytest

from txjax.data import Bytes
from txjax.models.hierarchical import Stage
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.swin.swin import Swin, shifted_windows
from txjax.nn import Classes, Grid, Learned, MeanTokens, PatchEmbedding
from txjax.report.inspection.attention_maps import attention_maps
from txjax.report.inspection.examples import Example
from txjax.report.inspection.findings import Findings, findings
from txjax.report.inspection.inspect_page import pictures_of
from txjax.report.inspection.token_page import token_page

from helpers.arrays import numbers, on_jax, variables

BYTES = dict.fromkeys(("tokens", "source_tokens"), Bytes())


def inspected(model: Any, inputs: dict[str, np.ndarray], **options: Any) -> tuple[Findings, dict[str, bytes], Any]:
    params = on_jax(variables(model, **inputs))
    image = np.clip(inputs["image"][0], 0, 1) if "image" in inputs else None
    found = findings(model, params, [Example("an example", inputs, image, BYTES)], **options)
    pictures = pictures_of(found, model, params["params"], None)
    return found, {picture.name: picture.content for picture in pictures}, params


def test_a_model_without_attention_has_its_other_pictures() -> None:
    model = ConvNet(head=Classes(10, MeanTokens()), width=4, depth=1, stages=1)
    found, pictures, _ = inspected(model, {"image": numbers(1, 8, 8, 3)}, layers=[5])
    assert set(pictures) == {"overview", "filters"}
    assert found.notes == ["no attention maps: ConvNet has no attention whose weights are known"]


@pytest.mark.slow
def test_windows_that_shift() -> None:
    """The map of one patch is in its window, and is the map of the window that has it."""
    model = Swin(
        stages=(Stage(width=8, depth=2, heads=2), Stage(width=16, depth=2, heads=2)),
        stem=PatchEmbedding(patch=2),
        mixer=shifted_windows(2),
        head=Classes(10, MeanTokens()),
        positions=Learned(max_length=16),
    )
    inputs = {"image": numbers(1, 8, 8, 1)}
    found, pictures, params = inspected(model, inputs, query=(0.9, 0.9))
    first, second = (f"stages_{i}/layers/block/attention" for i in range(2))
    assert {first, second} == set(found.chosen)
    (seen,) = found.inspections
    assert seen.attentions[first].keys.grid == Grid(4, 4) and seen.attentions[second].keys.grid == Grid(2, 2)
    weights = seen.kept[first].weights[:, 0].reshape(2, 2, 4, 4)
    maps = jax.jit(lambda v, x: attention_maps(model, v, {"image": x}))
    raw = np.asarray(maps(params, inputs["image"])[first])
    np.testing.assert_allclose(weights[0, :, 2:, 2:].reshape(2, 4), raw[0, 3, :, 3], rtol=1e-5)
    assert not weights[0, :, :2].any() and not weights[0, :, :, :2].any()
    last = weights[1]  # of the shifted window only the one patch is a neighbour
    np.testing.assert_allclose(last[:, 3, 3], 1, rtol=1e-5)
    assert {"attention_0_stages_0_attention", "stages_1_positions", "distance", "overview"} <= set(pictures)
    assert seen.kept[first].rollout is None  # of one of two stages


@pytest.mark.slow
def test_an_encoder_decoder() -> None:
    """Cross-attention has the target's tokens on the left, the source's at the bottom, without padding."""
    model = EncoderDecoder(vocab=256, width=8, depth=1, encoder_depth=2, heads=2)
    source, target = (Bytes().encode(text).astype(np.int32)[None] for text in ("ein Hund", "a dog"))
    real = (np.arange(8)[None] < 6).astype(np.int32)
    inputs = {"tokens": target, "source_tokens": source, "source_segments": real}
    found, pictures, _ = inspected(model, inputs, layers=[-1])
    paths = {path: (each.queries.name, each.keys.name) for path, each in found.inspections[0].attentions.items()}
    assert paths == {
        "encoder/layers/block/attention": ("source_tokens", "source_tokens"),
        "decoder/layers/block/attention": ("tokens", "tokens"),
        "decoder/layers/block/cross": ("tokens", "source_tokens"),
    }
    assert found.chosen["encoder/layers/block/attention"] == ((1,), (0, 1))
    kept = found.inspections[0].kept["decoder/layers/block/cross"]
    assert kept.rollout is None and kept.distance is None
    rollouts = {path for path, each in found.inspections[0].kept.items() if each.rollout is not None}
    assert rollouts == {"encoder/layers/block/attention"}
    assert {"attention_0_decoder_cross", "distance_tokens", "distance_source_tokens"} <= set(pictures)
    page = token_page(found, "a", "b")
    assert '"keys":["e","i","n","\\u2423","H","u"]' in page and '"queries":["a","\\u2423","d"' in page
