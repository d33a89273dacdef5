"""Folders of CLIP and SigLIP: the end token, what is kept of config.json, and models that no folder has."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import Bytes, NextTokenWindows
from txjax.experiment import Experiment
from txjax.interop import huggingface
from txjax.interop.huggingface.companions import describe_run
from txjax.nn import Classes, FirstToken, MeanTokens, Projected
from txjax.objectives import SoftmaxContrastive
from txjax.types import UserError

from helpers import small_towers as small
from helpers.arrays import variables

pytestmark = pytest.mark.claim("Transfer", "folders of CLIP and SigLIP, and of their towers")

IDS = np.asarray([[1, 6, 10, 2, 6], [7, 10, 6, 6, 1]], np.int32)


def config_of(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())


def text_embeds(model: Any, weights: Any, **inputs: Any) -> Any:
    settings = {key: value for key, value in inputs.items() if isinstance(value, int)}
    arrays = {key: value for key, value in inputs.items() if key not in settings}
    forward = jax.jit(lambda weights, arrays: huggingface.forward(model, weights, arrays | settings))
    return np.asarray(forward(weights, arrays)["text_embeds"])


@pytest.mark.parametrize(("end", "lengths"), [(None, (3, 2)), (2, (3, 2)), (6, (2, 3)), (4, (1, 1))])
def test_clip_reads_a_text_to_its_first_end_token(end: int | None, lengths: tuple[int, int]) -> None:
    """2, and no number, stand for the largest id. A text without an end is read to its first token."""
    weights = variables(small.CLIP_TEXTS, **small.TOKENS)
    setting = {} if end is None else {"eos_token_id": end}
    embeds = text_embeds(small.CLIP_TEXTS, weights, input_ids=IDS, **setting)
    for row, length in enumerate(lengths):
        alone = text_embeds(small.CLIP_TEXTS, weights, input_ids=IDS[row : row + 1, :length], **setting)
        np.testing.assert_allclose(embeds[row], alone[0], atol=1e-6)


def test_siglip_reads_no_mask() -> None:
    weights = variables(small.SIGLIP_TEXTS, **small.TOKENS)
    with pytest.raises(UserError, match="attention_mask: expected a known input; siglip_text_model takes input_ids"):
        huggingface.forward(small.SIGLIP_TEXTS, weights, {"input_ids": IDS, "attention_mask": IDS})


def test_the_parts_of_a_kept_config_are_kept(tmp_path: Path) -> None:
    weights = variables(small.CLIP, **small.IMAGE, **small.TOKENS)
    huggingface.save(small.CLIP, weights, tmp_path / "new")
    assert config_of(tmp_path / "new")["text_config"]["eos_token_id"] == 2
    kept = {"model_type": "clip", "text_config": {"eos_token_id": 6, "hidden_size": 99}, "initializer_factor": 0.5}
    huggingface.save(small.CLIP, weights, tmp_path / "kept", kept)
    config = config_of(tmp_path / "kept")
    assert config == config_of(tmp_path / "new") | {"initializer_factor": 0.5, "text_config": config["text_config"]}
    assert (config["text_config"]["eos_token_id"], config["text_config"]["hidden_size"]) == (6, 6)


@pytest.mark.parametrize(
    ("tokenizer", "kept", "ids"),
    [
        (Bytes(("[CLS]", "[SEP]")), {}, (256, 257)),
        (Bytes(("[CLS]", "[SEP]")), {"text_config": {"eos_token_id": 2}}, (256, 2)),
        (Bytes(), {}, (None, None)),
    ],
)
def test_a_runs_end_token_is_in_the_config_of_its_texts(tokenizer: Any, kept: Any, ids: Any, caplog: Any) -> None:
    data = NextTokenWindows("txjax_python_text", length=7, tokenizer=tokenizer)
    _, facts = describe_run(Experiment(small.CLIP, SoftmaxContrastive(), data), kept)
    assert (facts["text_config"].get("bos_token_id"), facts["text_config"].get("eos_token_id")) == ids
    assert ("config.json has no token that ends texts" in caplog.text) == (ids == (None, None))


@pytest.mark.parametrize("name", ["clip", "clip-images", "clip-texts", "siglip-images", "siglip-texts"])
def test_an_import_has_the_model_alone(name: str, tmp_path: Path) -> None:
    """No data that are embedded have images with texts, and no text alone trains a tower."""
    model, inputs = small.SMALL_TOWERS[name]
    weights = variables(model, **inputs)
    huggingface.save(model, weights, tmp_path / "folder")
    assert main(["import", f"--from={tmp_path / 'folder'}", f"--workdir={tmp_path / 'run'}"]) == 0
    assert main(["export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'again'}"]) == 0
    jax.tree.map(np.testing.assert_array_equal, huggingface.load(tmp_path / "again")[1], weights)
    assert config_of(tmp_path / "again") == config_of(tmp_path / "folder")


NO_FAMILY = "config.model: expected a model that Hugging Face has too"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (small.CLIP.clone(bias=-10.0), "config.model.bias: expected None, got -10.0"),
        (
            small.CLIP.clone(
                vision=small.CLIP_IMAGES.clone(head=Projected(5, small.CLIP_IMAGES.head.pool)),
                text=small.CLIP_TEXTS.clone(head=Projected(5, MeanTokens())),
            ),
            "config.model.text.head.pool.class: expected '.*LastToken'",
        ),
        (
            small.CLIP.clone(text=small.CLIP_TEXTS.clone(dropout=0.1)),
            "config.model.text.dropout: expected 0.0, got 0.1",
        ),
        (small.CLIP.clone(vision=small.SIGLIP_IMAGES.clone(head=Projected(4, MeanTokens()))), NO_FAMILY),
        (small.CLIP_IMAGES.clone(head=Classes(3, FirstToken())), "config.model.head.class: expected '.*Pooled'"),
        (
            small.CLIP_IMAGES.clone(head=Projected(4, FirstToken())),
            "config.model.head.pool.class: expected '.*NormedPool'",
        ),
        (small.SIGLIP.clone(largest_scale=100.0), "config.model.largest_scale: expected None, got 100.0"),
        (small.SIGLIP.clone(bias=None), NO_FAMILY),
        (small.SIGLIP_IMAGES.clone(head=Classes(3, MeanTokens())), "config.model.head.class: expected '.*Pooled'"),
    ],
)
def test_models_that_no_folder_has_are_refused(model: Any, said: str, tmp_path: Path) -> None:
    inputs = {"image": small.IMAGE, "tokens": small.TOKENS}
    names = model.__call__.__annotations__
    given = {key: x for name, value in inputs.items() if name in names for key, x in value.items()}
    with pytest.raises(UserError, match=said):
        huggingface.save(model, variables(model, **given), tmp_path / "x")
    assert not (tmp_path / "x").exists()
