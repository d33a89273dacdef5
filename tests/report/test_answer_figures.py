"""Inspection of a model that reads images: the patches that an answer attends to, and texts without their tokens."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Conversations, VicunaTemplate
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.objectives import NextToken
from txjax.report.inspection.examples import examples_from, examples_of, patch_indices
from txjax.report.inspection.findings import findings
from txjax.report.inspection.inspect_page import pictures_of
from txjax.types import UserError

from helpers.arrays import variables
from helpers.conversation_folder import entry, pixels, write

pytestmark = pytest.mark.claim("Evaluation", "the patches of an image that the tokens of an answer attend to")


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
    data = Conversations("txjax_conversations", "train", data_dir, **fields)
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
