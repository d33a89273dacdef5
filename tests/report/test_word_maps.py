"""Attention between images and what has labels, as maps over the picture: words of a text, of an answer, queries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Bytes, Conversations, VicunaTemplate
from txjax.models.hierarchical import Stage
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.multimodal.unit import DecodedTask, MapEncoder, UniT
from txjax.models.multimodal.vilbert import GivenRegions, GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.models.vision.detr import DETR
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import Classes, FirstToken, Grid, Identity, LayerNorm, PatchEmbedding
from txjax.objectives import NextToken
from txjax.report.inspection.attention_maps import attention_maps
from txjax.report.inspection.attention_sequences import Sequence
from txjax.report.inspection.examples import Example, examples_from, examples_of, patch_indices
from txjax.report.inspection.findings import Findings, findings
from txjax.report.inspection.inspect_page import pictures_of
from txjax.report.inspection.labels import label_tokens
from txjax.report.inspection.word_maps import word_maps
from txjax.types import UserError

from helpers.arrays import numbers, on_jax, variables
from helpers.conversation_folder import entry, pixels, write

pytestmark = pytest.mark.claim(
    "Evaluation",
    "the places of an image that words, queries and the tokens of an answer attend to, or that attend to words",
)

HEADS = 2
SIZES: dict[str, Any] = {"width": 8, "heads": HEADS}


def model() -> LLaVA:
    vision = CLIPImageTower(patch=2, width=4, depth=1, heads=2, head=None)
    return LLaVA(vocab=258, width=8, depth=1, heads=2, image_token=256, vision=vision)


def test_tokens_of_patches():
    inputs = {"tokens": np.array([[1, 256, 256, 3, 256]]), "segments": np.array([[1, 1, 1, 1, 0]])}
    assert patch_indices(model(), inputs).tolist() == [1, 2]
    assert patch_indices(model(), {"image": np.zeros((1, 4, 4, 3))}).tolist() == []


@pytest.mark.slow
def test_the_patches_that_an_answer_attends_to(tmp_path):
    entries = [entry("<image>\nWhat?", "A cat.", image="a.png"), entry("Hi.", "Ho.")]
    data_dir = write(tmp_path, {"a.png": pixels(1)}, train=entries)
    fields = dict(template=VicunaTemplate(system=""), image_tokens=4, length=48, shape=(4, 4, 3))
    data = Conversations(source=data_dir, **fields)
    params = variables(model(), tokens=jnp.full((1, 8), 256), image=jnp.zeros((1, 4, 4, 3)))
    examples = list(examples_of(model(), NextToken(), data, "data", 2))
    assert examples[0].patches.tolist() == [6, 7, 8, 9] and not len(examples[1].patches)
    words = examples[0].words("tokens", 0, 12)
    assert words[:5] == ["U", "S", "E", "R", ":"] and words[7:11] == ["W", "h", "a", "t"]
    assert examples[0].written()[1][:3] == ["␣", "A", "␣"]
    inspected = findings(model(), params, examples)
    names = [picture.name for picture in pictures_of(inspected, model(), params["params"], None)]
    assert [name for name in names if name.endswith("_answer")] == ["attention_0_attention_answer"]
    with pytest.raises(UserError, match="--input: expected --data"):
        list(examples_from(["What?"], model(), params, data))


def inspect(model: Any, inputs: dict[str, np.ndarray]) -> tuple[Findings, dict[str, np.ndarray], set[str]]:
    """The findings of one example, the model's own weights by path, and the names of the pictures."""
    params = on_jax(variables(model, **inputs))
    image = np.clip(inputs["image"][0], 0, 1) if "image" in inputs else None
    inspected = findings(
        model, params, [Example("an example", inputs, image, {"tokens": Bytes(), "source_tokens": None})]
    )
    weights = jax.jit(lambda v, x: attention_maps(model, v, x))(params, on_jax(inputs))
    pictures = pictures_of(inspected, model, params["params"], None)
    return inspected, {path: np.asarray(x) for path, x in weights.items()}, {picture.name for picture in pictures}


def text(content: str, length: int) -> dict[str, np.ndarray]:
    """A text of bytes with padding behind it."""
    ids = Bytes().encode(content).astype(np.int32)
    segments = (np.arange(length) < len(ids)).astype(np.int32)[None]
    return {"tokens": np.pad(ids, (0, length - len(ids)))[None], "segments": segments}


def vilbert(regions: Any) -> ViLBERT:
    return ViLBERT(text=Bert(vocab=258, depth=1, head=None, **SIZES), regions=regions, depth=2, **SIZES)


@pytest.mark.slow
def test_words_and_places_read_each_other_in_a_connection() -> None:
    """Also where a text has as many tokens as the image has regions, the first of which is the whole image."""
    inputs = text("a dog", 7) | {"image": numbers(1, 4, 6, 1)}
    inspected, weights, names = inspect(vilbert(GridRegions(patch=2)), inputs)
    (inspection,) = inspected.inspections
    paths = {stream: f"layers/block/connection/{stream}/attention" for stream in ("text", "image")}
    of_words = word_maps(inspection, paths["text"])
    assert of_words is not None and of_words.labels == ["a", "␣", "d", "o", "g"]
    want = weights[paths["text"]][:, 0].mean(1)[:, :5, 1:].reshape(2, 5, 2, 3)
    np.testing.assert_allclose(of_words.maps, want, rtol=1e-5)
    of_places = word_maps(inspection, paths["image"])
    assert of_places is not None and of_places.labels == of_words.labels
    want = weights[paths["image"]][:, 0].mean(1)[:, 1:, :5].transpose(0, 2, 1).reshape(2, 5, 2, 3)
    np.testing.assert_allclose(of_places.maps, want, rtol=1e-5)
    assert word_maps(inspection, "layers/block/layer/text/attention") is None
    reads = {f"attention_0_connection_{stream}_attention_words" for stream in paths}
    assert reads == {name for name in names if name.endswith("_words")} and not inspected.notes[1:]


@pytest.mark.slow
def test_regions_that_are_given_have_numbers() -> None:
    regions = {"regions": numbers(1, 3, 5), "region_boxes": np.array([[[0, 0, 1, 1]] * 3], np.float32)}
    inputs = text("hi", 4) | regions | {"region_segments": np.array([[1, 1, 0]])}
    inspected, _, names = inspect(vilbert(GivenRegions()), inputs)
    path = "layers/block/connection/text/attention"
    keys = inspected.inspections[0].attentions[path].keys
    assert label_tokens(inspected.inspections[0].example, keys, 9)[1] == ["region 0", "region 1"]
    assert {f"attention_0_connection_{stream}_attention_mean" for stream in ("text", "image")} <= names


def backbone() -> MetaFormer:
    """It looks at every patch of 4 x 4 pixels by itself."""
    return MetaFormer(stages=(Stage(8, 1),), stem=PatchEmbedding(patch=4), mixer=Identity(), norm=LayerNorm())


def unit(**task: Any) -> UniT:
    return UniT(
        vision=MapEncoder(backbone=backbone(), depth=1, **SIZES),
        text=Bert(vocab=258, depth=2, head=None, **SIZES),
        tasks={"task": DecodedTask(Classes(3, FirstToken()), **task)},
        most_tasks=2,
        depth=2,
        **SIZES,
    ).for_task("task")


@pytest.mark.slow
def test_queries_read_an_image_and_a_text() -> None:
    """As many queries, places and words as a grid may have; the vector of the task is no token of a text."""
    inputs = {"image": numbers(1, 16, 16, 1)} | text("a red dog", 16)
    inspected, weights, names = inspect(unit(queries=4), inputs)
    (inspection,) = inspected.inspections
    path = "decoder_shared/layers/block/cross"
    of_image = word_maps(inspection, f"{path}/image")
    assert of_image is not None and of_image.labels == [f"query {i}" for i in range(4)]
    both = weights[path][:, 0].mean(1)
    np.testing.assert_allclose(of_image.maps, both[..., :16].reshape(2, 4, 4, 4), rtol=1e-5)
    of_text = inspection.kept[f"{path}/tokens"].weights
    np.testing.assert_allclose(of_text[:, 0].mean(1), both[..., 16:], rtol=1e-5)
    assert inspection.attentions["text/layers/block/attention"].queries == Sequence("tokens", 16, first=1)
    own = weights["text/layers/block/attention"][..., 1:, 1:]
    np.testing.assert_allclose(inspection.kept["text/layers/block/attention"].weights, own, rtol=1e-5)
    assert inspection.attentions["decoder_shared/layers/block/attention"].queries.grid is None
    assert inspection.attentions["vision/encoder/layers/block/attention"].keys == Sequence(
        "image", 16, Grid(4, 4, 0), 1
    )
    maps = {"attention_0_decoder_shared_cross_image_words", "attention_0_decoder_shared_cross_tokens_mean"}
    assert maps <= names


@pytest.mark.slow
@pytest.mark.parametrize("read", [["image"], ["tokens"]])
def test_queries_read_what_a_task_has(read: list[str]) -> None:
    inputs = {"image": numbers(1, 16, 16, 1)} | text("a red dog", 16)
    inspected, weights, _ = inspect(unit(queries=3, text_tokens=1), {name: inputs[name] for name in read})
    path = "decoder_shared/layers/block/cross"
    keys = inspected.inspections[0].attentions[path].keys
    assert (keys.name, keys.length) == (read[0], weights[path].shape[-1])


@pytest.mark.slow
def test_queries_of_a_detector() -> None:
    model = DETR(backbone=backbone(), queries=4, depth=1, **SIZES)
    inspected, weights, _ = inspect(model, {"image": numbers(1, 16, 16, 1)})
    maps = word_maps(inspected.inspections[0], "decoder/layers/block/cross")
    assert maps is not None and maps.labels == [f"query {i}" for i in range(4)]
    want = weights["decoder/layers/block/cross"][:, 0].mean(1).reshape(1, 4, 4, 4)
    np.testing.assert_allclose(maps.maps, want, rtol=1e-5)
