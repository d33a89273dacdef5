"""Folders of LLaVA: names of tensors, layers of features, and what is refused."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from txjax.interop import huggingface
from txjax.interop.huggingface.catalog import FAMILIES
from txjax.models.multimodal.llava import LinearProjector, LLaVA, MLPProjector
from txjax.models.multimodal.two_towers import CLIPImageTower, SigLIPImageTower
from txjax.models.text.decoder import llama
from txjax.nn import FirstToken, LayerNorm, Learned, NormedPool, Pooled, Stack, Tied
from txjax.types import UserError

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Transfer", "folders of LLaVA: exact round trips, the hub's names, features of chosen layers, refusals"
)

SIZES: dict[str, Any] = dict(width=8, depth=3, heads=2)
TOWER = CLIPImageTower(
    **SIZES, patch=2, positions=Learned(max_length=5), norm=LayerNorm(eps=1e-5), stack=Stack(outputs=(-2,))
)
DECODER = llama(vocab=13, width=12, depth=2, heads=2)
MODEL = LLaVA.of(DECODER, vision=TOWER, image_token=12)
INPUTS = {"tokens": jnp.asarray([[1, 2]], jnp.int32), "image": jnp.asarray(numbers(1, 4, 4, 3))}


def config_of(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())


def change_config(folder: Path, **entries: Any) -> None:
    """Changes entries of config.json, key by key in the objects inside it."""
    config = config_of(folder)
    for key, value in entries.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `MODEL`."""
    huggingface.save(MODEL, variables(MODEL, **INPUTS), tmp_path / "llava")
    return tmp_path / "llava"


def test_a_round_trip_is_exact(folder: Path, tmp_path: Path) -> None:
    """Also of the layers and of the norm of the tower that no output depends on."""
    model, weights = huggingface.load(folder)
    original = variables(MODEL, **INPUTS)
    jax.tree.map(np.testing.assert_array_equal, weights, original)
    assert {"layers", "norm_final"} < set(weights["params"]["vision"])
    assert (model.vision.stack.outputs, model.image_token, model.vision.head) == ((-2,), 12, None)
    config = config_of(folder)
    assert (config["image_seq_length"], config["vision_feature_layer"], config["image_token_index"]) == (4, -2, 12)
    huggingface.save(model, weights, tmp_path / "again", config)
    assert config_of(tmp_path / "again") == config


@pytest.mark.parametrize(
    "names",
    [
        {"vision_tower.": "vision_tower.vision_model."},  # the hub's
        {  # of the modules in memory
            "language_model.model.": "model.language_model.",
            "language_model.lm_head.": "lm_head.",
            "vision_tower.": "model.vision_tower.",
            "multi_modal_projector.": "model.multi_modal_projector.",
        },
    ],
)
def test_other_names_of_the_same(names: dict[str, str], folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for old, new in names.items():
        tensors = {new + name.removeprefix(old) if name.startswith(old) else name: x for name, x in tensors.items()}
    save_file(tensors, file)
    jax.tree.map(np.testing.assert_array_equal, huggingface.load(folder)[1], variables(MODEL, **INPUTS))


@pytest.mark.parametrize(
    ("outputs", "layer"), [((-2,), -2), ((0,), 1), ((2,), 3), (None, -1), ((-1,), [-1]), ((-3, 1, -1), [-3, 2, -1])]
)
def test_feature_layers_are_counted_from_one_there(outputs: Any, layer: Any, tmp_path: Path) -> None:
    model = MODEL.clone(vision=TOWER.clone(stack=Stack(outputs=outputs)))
    huggingface.save(model, variables(model, **INPUTS), tmp_path / "x")
    assert config_of(tmp_path / "x")["vision_feature_layer"] == layer
    assert huggingface.load(tmp_path / "x")[0].vision.stack.outputs == outputs


def test_one_family_has_the_model() -> None:
    """A model of a subclass of `Decoder` is none of its families'."""
    assert [family.model_type for family in FAMILIES if family.matches(MODEL)] == ["llava"]
    assert [family.model_type for family in FAMILIES if family.matches(DECODER)] == ["llama"]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"vision_feature_select_strategy": "full"}, "vision_feature_select_strategy: expected 'default', got 'full'"),
        ({"vision_feature_layer": 0}, "vision_feature_layer: expected numbers of the 3 layers.*, got 0"),
        ({"vision_feature_layer": [-2, -4]}, r"vision_feature_layer: expected numbers of the 3 layers.*\[-2, -4\]"),
        ({"vision_feature_layer": []}, "vision_feature_layer: expected numbers of the 3 layers"),
        ({"vision_feature_layer": "last"}, "vision_feature_layer: expected numbers of the 3 layers.*got 'last'"),
        ({"projector_hidden_act": "mish"}, "projector_hidden_act: expected one of gelu"),
        ({"image_token_index": 13, "image_token_id": 13}, "image_token_index: expected a token of the 13 in text_conf"),
        ({"image_token_id": 11}, "image_token_id: expected 12, got 11"),
        ({"text_config": {"model_type": "mistral"}}, "text_config.model_type: expected 'llama', got 'mistral'"),
        ({"text_config": {"hidden_act": "mish"}}, "text_config.hidden_act: expected one of gelu"),
        ({"vision_config": {"model_type": "siglip_vision_model"}}, "vision_config.model_type: expected 'clip_vision_m"),
        ({"vision_config": {"image_size": 5}}, "vision_config.patch_size: expected a divisor of the image's 5 x 5"),
        ({"multimodal_projector_bias": False}, r"linear_1\.bias: expected no such tensor"),
        ({"tie_word_embeddings": True}, r"lm_head\.weight: expected the same numbers as language_model\.model\.embed"),
    ],
)
def test_options_are_refused_by_name(entries: dict[str, Any], said: str, folder: Path) -> None:
    change_config(folder, **entries)
    with pytest.raises(UserError, match=said):
        huggingface.load(folder)


def test_a_head_is_tied_if_either_part_says_so(tmp_path: Path) -> None:
    model = MODEL.clone(head=Tied())
    huggingface.save(model, variables(model, **INPUTS), tmp_path / "x")
    config = config_of(tmp_path / "x")
    assert config["tie_word_embeddings"] and config["text_config"]["tie_word_embeddings"]
    change_config(tmp_path / "x", tie_word_embeddings=False)
    assert huggingface.load(tmp_path / "x")[0].head == Tied()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (MODEL.clone(projector=LinearProjector()), "config.model.projector.class: expected '.*MLPProjector'"),
        (
            MODEL.clone(vision=TOWER.clone(head=Pooled(NormedPool(FirstToken())))),
            "config.model.vision: expected an encoder of images without a head",
        ),
        (
            MODEL.clone(vision=SigLIPImageTower(**SIZES, patch=2)),
            "config.model: expected a model that Hugging Face has too",
        ),
        (
            MODEL.clone(positions=Learned(max_length=9)),
            "config.model: expected a model that Hugging Face has too",
        ),
        (MODEL.clone(dropout=0.1), "config.model.dropout: expected 0.0, got 0.1"),
        (MODEL.clone(vision=TOWER.clone(dropout=0.1)), "config.model.vision.dropout: expected 0.0, got 0.1"),
    ],
)
def test_models_that_no_folder_has_are_refused(model: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        huggingface.save(model, variables(model, **INPUTS), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_projector_without_biases(tmp_path: Path) -> None:
    """The file says so; the function is the same."""
    model = MODEL.clone(projector=MLPProjector(activation="relu", use_bias=False))
    huggingface.save(model, variables(model, **INPUTS), tmp_path / "x")
    assert not any("projector" in name and "bias" in name for name in load_file(tmp_path / "x" / "model.safetensors"))
    again, weights = huggingface.load(tmp_path / "x")
    assert again.projector == model.projector
    jax.tree.map(np.testing.assert_array_equal, weights, variables(model, **INPUTS))
