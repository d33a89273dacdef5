"""Questions about images: the tokens of training up to the answer."""

import numpy as np
import pytest

from txjax.data import Conversations, PlainTemplate, VicunaTemplate
from txjax.decoding import prompts_for
from txjax.decoding.pictured_prompts import PicturedPrompt, read_image

from helpers.conversation_folder import entry, pixels, write

pytestmark = pytest.mark.claim("Generation", "questions about images: the tokens of training up to the answer")

QUESTION = "What is this?"


@pytest.mark.parametrize("template", [VicunaTemplate(), PlainTemplate()], ids=lambda value: type(value).__name__)
def test_a_question_is_what_training_has_before_the_answer(tmp_path, template):
    images = {"a.png": pixels(1)}
    data_dir = write(tmp_path, images, train=[entry(f"<image>\n{QUESTION}", "A cat.", image="a.png")])
    small = dict(image_tokens=3, length=260, shape=(4, 4, 3), mean=(0.0,), std=(1.0,), template=template)
    data = Conversations(source=data_dir, **small)
    row = data.open().example(0, 0, np.random.default_rng(0))
    form = prompts_for(data, "config.data")
    inputs = form.inputs([PicturedPrompt(QUESTION, (f"{tmp_path}/a.png",))], "--image")
    begin = int(np.flatnonzero(row["weights"])[0]) + 1  # the first learned target is the token after this one
    np.testing.assert_array_equal(inputs["tokens"][0], row["tokens"][:begin])
    np.testing.assert_array_equal(inputs["image"][0], row["image"])
    np.testing.assert_array_equal(read_image(f"{tmp_path}/a.png", 3, "--image"), pixels(1))
    assert form.end == (257,)
