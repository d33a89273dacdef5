"""Runs on conversations: a model that reads their images, and user errors before anything compiles."""

import io
import json

import numpy as np
import pytest

from txjax.__main__ import main

from helpers.conversation_folder import entry, pixels, write

CONFIG = """
from txjax.data import ConversationFiles, Conversations
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.nn import Stack
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant
from txjax.optim.groups import train_all_but

def get_config():
    vision = CLIPImageTower(patch=2, width=4, depth=2, heads=2, stack=Stack(outputs=(-2,)))
    return Experiment(
        model=LLaVA(vocab=258, width=8, depth=1, heads=2, image_token=256, vision=vision),
        objective=NextToken(),
        data=Conversations(source=ConversationFiles(), image_tokens=4, most_images=2, length=220, shape=(4, 4, 3)),
        evals={"valid": Evaluation(data=Conversations(split="train"), every_steps=2, batch_size=2)},
        optimizer=AdamW(schedule=Constant(warmup_steps=0), groups=train_all_but("vision/.*")),
        num_steps=2,
        batch_size=2,
        log_every_steps=1,
        trackers=(),
    )
"""


def train(tmp_path, *flags: str) -> int:
    """A run on a folder with conversations about one image, two and none."""
    entries = [
        entry("<image>\nWhat?", "A cat.", image="a.png"),
        entry("<image><image>", "Two.", image=["a.png", "a.png"]),
        entry("Hi.", "Hello."),
    ]
    data_dir = write(tmp_path / "talk", {"a.png": pixels(1)}, train=entries)
    (tmp_path / "config.py").write_text(CONFIG)
    where = (f"--config={tmp_path}/config.py", f"--workdir={tmp_path}/run", f"--config.data.source={data_dir}")
    return main(["train", *where, *flags])


@pytest.mark.slow
def test_an_evaluation_has_the_fields_of_the_training_data(tmp_path):
    assert train(tmp_path) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert np.isfinite(rows[-1]["eval/valid/loss"])
    evaluated = json.loads((tmp_path / "run" / "config.json").read_text())["evals"]["valid"]["data"]
    assert (evaluated["most_images"], evaluated["length"], evaluated["image_tokens"]) == (2, 220, 4)


@pytest.mark.slow
def test_answers_about_images(tmp_path, capsys):
    """One question, and a file of them with one image, two and none, whose answers are the same as one by one."""
    assert train(tmp_path) == 0
    image = f"{tmp_path}/talk/a.png"
    asked = [("What?", [image]), ("<image> or <image>?", [image, image]), ("Hi.", [])]
    shared = ["generate", f"--workdir={tmp_path}/run", "--temperature=0", "--length=6", "--json"]

    def answers(*flags: str) -> list[dict]:
        capsys.readouterr()
        assert main([*shared, *flags]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    alone = [answers(f"--prompt={text}", f"--image={','.join(images)}") for text, images in asked]
    lines = [json.dumps({"prompt": text, "image": images}) for text, images in asked]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    together = answers(f"--prompts={tmp_path}/questions.jsonl")
    assert [(record["prompt"], record["image"]) for record in together] == asked
    assert together == [record for (record,) in alone]
    for flags, said in (
        (["--image=a.png"], "--prompt: expected a question"),
        (["--prompt=a", "--image=b.png"], "--image: expected an image file, got 'b.png'"),
        (["--prompt=<image>"], "--image: expected as many images as <image> is in the question, 1, got 0"),
        (["--prompt=a", f"--image={image},{image},{image}"], "--image: expected at most 2 images"),
        (["--prompt=a", "--audio=a.wav"], "--audio: expected --image, since the run reads no audio"),
    ):
        assert main([*shared, *flags]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_chat_about_an_image(tmp_path, capsys, monkeypatch):
    """The first question is answered as a prompt alone, also after /forget; other lines stop nothing."""
    assert train(tmp_path, "--config.data.length=260") == 0
    image = f"{tmp_path}/talk/a.png"
    shared = ["generate", f"--workdir={tmp_path}/run", "--temperature=0", "--length=6", "--json"]
    capsys.readouterr()
    assert main([*shared, "--prompt=What?", f"--image={image}"]) == 0
    alone = json.loads(capsys.readouterr().out)
    lines = ["What?", "And?", "/image b.png", "This?", "/show", "/forget", f"/image {image}", "What?", "/quit", "Why?"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert main([*shared, "--chat", f"--image={image}"]) == 0
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines()]
    assert answers[0] == answers[2] == alone and [answer["prompt"] for answer in answers] == ["What?", "And?", "What?"]
    assert answers[1]["image"] == []
    assert (
        "--image: expected an image file, got 'b.png'" in err and "expected a question or a command, got '/show'" in err
    )
    for flags, message in (
        (["--prompt=a"], "--prompt: expected no --chat, whose questions are on standard input, got 'a'"),
        (["--samples=2"], "--samples: expected no --chat"),
        (["--beam=2"], "--chat: expected no --beam"),
    ):
        assert main(["generate", f"--workdir={tmp_path}/run", "--chat", *flags]) == 2
        assert message in capsys.readouterr().err


def test_more_images_than_the_model_is_given_are_one_line(tmp_path, capsys):
    assert train(tmp_path, "--config.data.most_images=1") == 2
    line = capsys.readouterr().err.strip().splitlines()[0]
    assert line.startswith("txjax: config.data.unusable: expected usable conversations, got '")
    assert f"got '{tmp_path}/talk/train.json: entry 2: 2 images, more than data.most_images = 1" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("model.image_token=255", "config.model.image_token: expected 256, the token <image> of config.data, got 255"),
        (
            "data.image_tokens=5",
            "config.data.image_tokens: expected 4, the patches of (4, 4) by config.model.vision.patch = 2, got 5",
        ),
        ("data.marker=[IMAGE]", "config.data.tokenizer.specials: expected the token [IMAGE] among them"),
    ],
)
def test_other_image_tokens_than_the_models_are_one_line(tmp_path, capsys, flag, said):
    assert train(tmp_path, f"--config.{flag}") == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("data.shape=(6,6,3)", "data.image_tokens=9", "model.vision.positions=Learned(max_length=5)"),
            "config.model.positions.max_length: expected at least the input's length of 10, got 5",
        ),
        (("data.shape=(5,5,3)",), "config.model.patch: expected a divisor of the image's 5 x 5 pixels, got 2"),
    ],
)
def test_images_of_another_size_than_the_towers_are_one_line(tmp_path, capsys, flags, message):
    assert train(tmp_path, *(f"--config.{flag}" for flag in flags)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_tower_of_another_width_than_the_origins_is_one_line(tmp_path, capsys):
    assert train(tmp_path, "--config.num_steps=1") == 0
    (tmp_path / "run").rename(tmp_path / "origin")
    capsys.readouterr()
    assert train(tmp_path, f"--config.init_from={tmp_path}/origin", "--config.model.vision.width=8") == 2
    assert "config.init_from: expected vision/layers/block/" in capsys.readouterr().err
