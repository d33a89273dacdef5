"""ViLBERT: the regions of a grid, which layers read the other stream, what a BERT gives it, and errors."""

import json
from typing import Any

import jax
import numpy as np
import pytest

from txjax import sharding, tree
from txjax.checkpoint import Store
from txjax.data import Bytes, ImageQuestions, TextWindows
from txjax.experiment import Experiment
from txjax.models.multimodal.vilbert import GivenRegions, GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.nn import Attention, Classes, MaskedTokens, MeanTokens, PreNorm, ProductPooler
from txjax.objectives import Classification, MaskedToken
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.transfer import First, From, Last
from txjax.types import UserError, flat_paths

from helpers.arrays import call, fill, numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives", "ViLBERT: streams that read each other; a BERT gives the layers of the text"
)

SIZES: dict[str, Any] = {"width": 8, "heads": 2}
TOKENS = np.asarray([[3, 1, 4, 1], [5, 9, 0, 0]], np.int32)
SEGMENTS = (TOKENS > 0).astype(np.int32)
IMAGE = numbers(2, 4, 6, 1)


def model(**fields: Any) -> ViLBERT:
    text = Bert(vocab=11, depth=1, head=None, **SIZES)
    return ViLBERT(**dict(text=text, regions=GridRegions(patch=2), width=12, depth=1, heads=3) | fields)


@pytest.fixture(scope="module")
def encode():
    """Calls a model with changes of the batch."""
    whole = model()
    weights = variables(whole, TOKENS, SEGMENTS, image=IMAGE)
    assert set(weights["params"]["layers"]["block"]) == {"connection", "layer"}
    program = jax.jit(lambda weights, inputs: whole.apply(weights, **inputs))
    batch = {"tokens": TOKENS, "segments": SEGMENTS, "image": IMAGE, "hidden_regions": np.zeros((2, 7), bool)}
    return lambda **changes: call(program, weights, batch | changes)


def test_the_cells_of_a_grid_come_after_the_whole_image():
    image = np.arange(24, dtype=np.float32).reshape(1, 4, 6, 1)
    regions = call(lambda image: GridRegions(patch=2).read({"image": image}), image)
    assert regions.features.shape == (1, 7, 4) and regions.segments is None
    assert regions.features[0, 3].tolist() == [4, 5, 10, 11]
    np.testing.assert_array_equal(regions.features[0, 0], regions.features[0, 1:].mean(0))
    place_numbers = regions.place_numbers()[0]
    np.testing.assert_allclose(place_numbers[0], [0, 0, 1, 1, 1])
    np.testing.assert_allclose(place_numbers[3], [2 / 3, 0, 1, 1 / 2, 1 / 6], rtol=1e-6)
    np.testing.assert_allclose(place_numbers[4], [0, 1 / 2, 1 / 3, 1, 1 / 6], rtol=1e-6)


def test_both_streams_read_each_other_at_once(encode):
    """And regions that are hidden have features of zeros."""
    before = encode()
    assert before.features.shape == (2, 4, 8) and before.image.features.shape == (2, 7, 12)
    other_image = encode(image=IMAGE[::-1])
    assert not np.allclose(before.features, other_image.features, atol=1e-3)
    other_text = encode(tokens=TOKENS[::-1], segments=SEGMENTS[::-1])
    assert not np.allclose(before.image.features, other_text.image.features, atol=1e-3)
    hidden = encode(hidden_regions=np.ones((2, 7), bool))
    np.testing.assert_allclose(hidden.image.features, encode(image=0 * IMAGE).image.features, atol=1e-6)


def test_padding_of_the_text_is_not_read_by_the_image(encode):
    before = encode()
    after = encode(tokens=np.where(SEGMENTS > 0, TOKENS, 7))
    np.testing.assert_allclose(before.image.features, after.image.features, atol=1e-6)
    np.testing.assert_allclose(before.features[SEGMENTS > 0], after.features[SEGMENTS > 0], atol=1e-6)


def test_norms_after_the_last_layer_are_of_both_streams():
    blocks = model(block=PreNorm(), text=Bert(vocab=11, depth=1, block=PreNorm(), head=None, **SIZES))
    params = variables(blocks, TOKENS, image=IMAGE)["params"]
    assert params["norm_text"]["scale"].shape == (8,) and params["norm_image"]["scale"].shape == (12,)
    assert "norm_text" not in variables(model(), TOKENS, image=IMAGE)["params"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(regions=GivenRegions()), "config.data: expected examples with regions and region_boxes"),
        (dict(text=Bert(vocab=11, depth=1, **SIZES)), "config.model.text.head: expected None, got 'MaskedTokens'"),
        (dict(mixer=(Attention(), Attention(window=2))), "config.model.mixer: expected one mixer in each stream"),
        (dict(cross_heads=5), "config.model.heads: expected a divisor of the width 12"),
        (dict(regions=GridRegions(patch=4)), "config.model.patch: expected a divisor of the image's 4 x 6 pixels"),
    ],
)
def test_errors(fields, message):
    with pytest.raises(UserError, match=message):
        variables(model(**fields), TOKENS, image=IMAGE)


def test_heads_of_pairs_need_an_image():
    with pytest.raises(UserError, match="config.model.head: expected a head without regions of an image"):
        variables(Bert(vocab=11, depth=1, head=Classes(2, ProductPooler(4)), **SIZES), TOKENS)


@pytest.mark.slow
def test_a_bert_gives_the_layers_of_the_text(tmp_path):
    """Its first layers, its last ones to the streams, and its head to the head."""
    text = Bert(vocab=258, depth=4, head=MaskedTokens(), **SIZES)
    windows = TextWindows(name="txjax_python_text", split="train", length=8, tokenizer=Bytes(("[CLS]", "[SEP]")))
    bert = Experiment(model=text, objective=MaskedToken(mask_id=256, vocab=256), data=windows, batch_size=2)
    store = Store(tmp_path / "bert", bert.checkpoint)
    with sharding.use_mesh(bert.mesh) as built:
        state = fill(build_layout(bert, built).abstract, 3)
        store.save(3, state, {})
        store.wait()
    (tmp_path / "bert" / "config.json").write_text(json.dumps(tree.to_json(bert)))
    run = str(tmp_path / "bert")
    pair = model(
        text=text.clone(depth=3, head=None),
        head=Classes(2, MeanTokens()),
    )
    questions = ImageQuestions(name="txjax_digits", split="train", answers=("0", "1"), shape=(8, 8, 1))
    tuning = Experiment(
        model=pair,
        objective=Classification(),
        data=questions,
        batch_size=2,
        init_from=(
            From(run, here="text", resize=(First(3),)),
            From(run, here="layers/block/layer/text", there="layers/block", resize=(Last(1),)),
        ),
    )
    with sharding.use_mesh(tuning.mesh) as built:
        layout = build_layout(tuning, built)
        params = flat_paths(find_init_source(tuning, layout).begin(tuning, layout).params)
    wanted = flat_paths(state.params)
    for path, array in params.items():
        inside = path.removeprefix("text/")
        if inside != path:
            np.testing.assert_array_equal(array, wanted[inside][:3] if "layers/" in inside else wanted[inside])
        elif path.startswith("layers/block/layer/text/"):
            np.testing.assert_array_equal(array, wanted[path.replace("/layer/text", "")][3:])
    assert sum(path.startswith("layers/block/layer/text/") for path in params) == 16
