"""Answers about images: exact and soft scores by kind, with shuffled and blank images; equal to `txjax generate`'s."""

import dataclasses
import io

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorflow_datasets import features

from txjax.data import (
    AlternatingQuestions,
    Conversations,
    NextTokenWindows,
    QuestionTurns,
    TemplateQuestions,
    Turn,
    VicunaTemplate,
)
from txjax.decoding import Sampling, generator_for, prompts_for, until
from txjax.decoding.pictured_prompts import PicturedPrompt
from txjax.eval import BlankImages, GeneratedAnswers, ImagesOfOthers
from txjax.eval.multimodal.answer_metrics import vqa_accuracy
from txjax.eval.multimodal.answer_pictures import ShownAnswer
from txjax.eval.multimodal.image_controls import draw_partners
from txjax.experiment import Experiment
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.nn import Logits
from txjax.objectives import NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers import photo_set
from helpers.arrays import variables
from helpers.data_sets import write_records
from helpers.evaluations import measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "answers about images: exact and soft scores by kind of question, with shuffled and blank images; errors",
)

END = 257
SHADES = [0, 1, 2, 1, 2, 2, 0, 1]  # of each image, which `Reader` answers
RIGHT = [0, 1, 2, 0, 2, 1, 1, 2]


class Reader(nn.Module):
    """Writes the shade of the image after the prompt's colon and a space, then the end."""

    vocab: int = 258

    @nn.compact
    def __call__(self, tokens, segments=None, positions=None, image=None, train=False):
        scale = self.param("scale", nn.initializers.ones, ())
        shade = jnp.round(255 * image[:, 0, 0, 0]).astype(jnp.int32)[:, None] + ord("0")
        following = jnp.where(tokens == ord(" "), shade, END)
        return Logits(9.0 * scale * jax.nn.one_hot(jnp.where(tokens == ord(":"), ord(" "), following), self.vocab))


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    layout = {
        "image": features.Image(shape=(4, 4, 3)),
        "label": features.ClassLabel(num_classes=3),
        "answers": features.Sequence(features.Text()),
    }
    records = []
    for shade, label in zip(SHADES, RIGHT, strict=True):
        image = io.BytesIO(photo_set.file(np.full((4, 4, 3), shade, np.uint8)))
        records.append({"image": image, "label": label, "answers": [str(label)] * 3 + [f"The {shade}."] * 2})
    data_dir = write_records(tmp_path_factory.mktemp("tfds"), "made_shades", layout, {"test": records})
    parts = TemplateQuestions("a?", "{label}", "answers", "first"), TemplateQuestions("bb?", "{label}", kind="second")
    return Conversations(
        "made_shades",
        "test",
        data_dir,
        QuestionTurns(AlternatingQuestions(parts)),
        VicunaTemplate(system=""),
        image_feature="image",
        image_tokens=4,
        length=48,
        shape=(4, 4, 3),
        mean=(0.0,),
        std=(1.0,),
    )


def share(answers: list[int], start: int = 0, step: int = 1):
    """The share of right answers among some."""
    pairs = list(zip(answers, RIGHT, strict=True))[start::step]
    return pytest.approx(np.mean([answer == right for answer, right in pairs]))


def test_scores_by_kind_and_with_other_images(questions, tmp_path):
    shuffled = [SHADES[partner] for partner in draw_partners(np.ones(8, np.int32), 0)]
    results = {}
    scores = measure(Reader(), NextToken(), GeneratedAnswers(questions), folder=tmp_path, results=results)
    for ending, answers in (("", SHADES), ("_shuffled", shuffled), ("_blank", [0] * 8)):
        assert scores[f"exact_match{ending}"] == share(answers)
        assert scores[f"exact_match_first{ending}"] == share(answers, 0, 2)
        assert scores[f"exact_match_second{ending}"] == share(answers, 1, 2)
    wrong = [2 / 3, 0.0]  # of a first and of a second question with the wrong shade: two people gave it
    soft = [1.0 if s == r else wrong[i % 2] for i, (s, r) in enumerate(zip(SHADES, RIGHT, strict=True))]
    assert scores["vqa_accuracy"] == pytest.approx(np.mean(soft))
    assert scores["vqa_accuracy_first"] == pytest.approx(np.mean(soft[::2]))
    rows = results["x"]
    assert rows["exact_match"].tolist() == [s == r for s, r in zip(SHADES, RIGHT, strict=True)]
    assert GeneratedAnswers(questions).rescore(rows) == scores
    table, *written = (tmp_path / "samples" / "x" / "7.txt").read_text().split("\n\n")
    heads, first, *_ = table.splitlines()
    assert heads.split() == ["images", "shuffled", "blank"] and first.split()[:2] == ["exact_match", "0.500"]
    assert (tmp_path / "pictures" / "x" / "7.png").read_bytes().startswith(b"\x89PNG")
    assert written[3] == "question: <image>\nbb?\nanswer: 0\noutput: 1" and len(written) == 8


def test_images_of_others_with_as_many():
    counts = np.array([1, 0, 1, 2, 1, 0])
    partners = draw_partners(counts, 3)
    assert sorted(partners) == [0, 1, 2, 3, 4, 5] and (counts[partners] == counts).all()
    assert partners[3] == 3 and (partners != np.arange(6)).sum() == 5


def test_soft_accuracy_of_several_answers():
    turn = Turn("How many?", "2", "", ("2", "two", "The 2.", "3"))
    assert [vqa_accuracy(text, turn) for text in ("2", " Two.", "4")] == [pytest.approx(2 / 3), pytest.approx(1 / 3), 0]
    assert vqa_accuracy("2", Turn("How many?", "2", "", ("2",) * 10)) == 1
    assert [vqa_accuracy(text, Turn("How many?", "Two")) for text in ("Two", "two")] == [1, 0]


def test_a_caption_has_the_right_answer_where_it_is_another():
    turn = Turn("<image>\nHow many digits are there?", "2")
    image = np.zeros((4, 4, 1))
    assert ShownAnswer(image, turn, "2").caption() == "How many digits are\nthere?\n2"
    assert ShownAnswer(image, turn, "3").caption() == "How many digits are\nthere?\n3 (not 2)"


@pytest.mark.slow
def test_answers_are_those_of_a_prompt_alone(questions, tmp_path):
    """The questions of a batch, which have unlike lengths, are answered with a cache as one by one."""
    vision = CLIPImageTower(patch=2, width=4, depth=1, heads=2, head=None)
    model = LLaVA(vocab=258, width=8, depth=1, heads=2, image_token=256, vision=vision)
    image = jnp.zeros((1, 4, 4, 3))
    params = variables(model, tokens=jnp.full((1, 8), 256), image=image)
    data = dataclasses.replace(questions, std=(0.002,))
    evaluation = GeneratedAnswers(data, length=5, controls=())
    measure(model, NextToken(), evaluation, params, tmp_path, data=questions)
    _, *written = (tmp_path / "samples" / "x" / "7.txt").read_text().split("\n\n")
    form = prompts_for(data, "data")
    for number in range(4):
        (tmp_path / "a.png").write_bytes(photo_set.file(np.full((4, 4, 3), SHADES[number], np.uint8)))
        prompt = PicturedPrompt(("a?", "bb?")[number % 2], (str(tmp_path / "a.png"),))
        inputs = form.inputs([prompt], "--image")
        greedy = Sampling(temperature=0.0, end=form.end)
        tokens = greedy(generator_for(model, params, inputs, 48), params, inputs, 5, jax.random.key(0))
        answer = form.text(prompt, until(np.asarray(tokens)[0], form.end))
        assert written[number].split("output:")[1].strip() == answer


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            dict(metrics=("exact",)),
            "config.evals.x.metrics: expected some of exact_match, vqa_accuracy",
        ),
        (dict(controls=(BlankImages(), BlankImages())), "config.evals.x.controls: expected each control once"),
        (dict(search=Sampling(end=(258,))), "config.evals.x.search.end: expected tokens below 258, got 258"),
        (
            dict(data=NextTokenWindows(name="txjax_python_text", length=16)),
            "config.evals.x.data: expected Conversations, questions about images",
        ),
    ],
)
def test_user_errors_before_compilation(questions, fields, message):
    evaluation = GeneratedAnswers(**{"data": questions, "controls": (ImagesOfOthers(),)} | fields)
    run = Experiment(model=Reader(), objective=NextToken(), data=questions, evals={"x": evaluation}, batch_size=8)
    with pytest.raises(UserError, match=message):
        check(run)
