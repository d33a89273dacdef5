"""Images with a question and the class of its answer: rows, what is left out and refused, images of other examples."""

import dataclasses
import functools

import numpy as np
import pytest

from txjax.data import (
    AlternatingQuestions,
    ImageQuestions,
    Images,
    LabelledText,
    PresenceQuestions,
    ShuffledImages,
    TemplateQuestions,
)
from txjax.data.loading.default_eval_data import follow_training_data
from txjax.types import UserError

from helpers import caption_set, photo_set, scene_set

pytestmark = pytest.mark.claim("Data", "questions about images with the class of their answer, and shuffled images")

CLS, SEP = 256, 257
LENGTH = 20


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Makes a set of questions about the pictures of `caption_set`: their captions, and dog or cat."""
    data_dir = caption_set.prepare(tmp_path_factory.mktemp("tfds"))
    fields = dict(name="made_captions", data_dir=data_dir, shape=caption_set.SHAPE, length=LENGTH, unusable="skip")
    fields |= dict(questions=TemplateQuestions("{caption}", "{label}"), answers=("cat", "dog"))
    return functools.partial(ImageQuestions, **fields)


def text(example):
    return bytes(example["tokens"][1 : example["segments"].sum() - 1].tolist()).decode()


def test_an_example_is_the_image_the_framed_question_and_the_number_of_the_answer(questions):
    data = questions(mean=(0.25,), std=(0.5,))
    example = data.open().example(1, 0, None)
    assert example["tokens"].tolist() == [CLS, *b"a cat", SEP] + [0] * 13
    assert example["segments"].tolist() == [1] * 7 + [0] * 13
    assert example["label"] == 0 and example["weights"] == 1
    labelled = Images("made_captions", data_dir=data.data_dir, shape=data.shape, mean=(0.25,), std=(0.5,))
    np.testing.assert_array_equal(example["image"], labelled.open().example(1, 0, None)["image"])
    spec = {key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"}
    assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
    assert data.classes == 2 and data.class_names() == ("cat", "dog") and data.vocab() == 258


def test_kinds_of_questions_take_turns(tmp_path):
    pixels = photo_set.file(np.zeros((4, 6), np.uint8))
    record = {"image": pixels, "instances": pixels, "boxes": [(0.0, 0.0, 1.0, 1.0)], "labels": [1]}
    data_dir = scene_set.prepare(tmp_path, [record] * 4)
    kinds = AlternatingQuestions((PresenceQuestions(), PresenceQuestions("{label}?")))
    data = ImageQuestions("made_scenes", data_dir=data_dir, shape=(4, 6, 1), questions=kinds, answers=("no", "yes"))
    examples = [data.open().example(index, 0, None) for index in range(4)]
    assert [text(example) for example in examples] == ["Is there a 0?", "0?", "Is there a 1?", "1?"]
    assert [int(example["label"]) for example in examples] == [0, 0, 1, 1]
    source = dataclasses.replace(data, rounds=3).open()
    assert [text(source.example(0, epoch, None)) for epoch in range(4)] == ["Is there a 0?", "0?", "Is there a 1?"] + [
        "Is there a 0?"
    ]
    assert [int(source.example(3, epoch, None)["label"]) for epoch in range(3)] == [1, 0, 0]


def test_what_is_left_out_is_counted(questions, caplog):
    source = questions(answers=("dog", "cow"), too_long="drop", length=12).open()
    assert [text(source.example(index, 0, None)) for index in range(len(source))] == ["a red dog", "one cat"]
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("made_captions train: 3 of 5 records are unusable and left out, the first: ")
    assert messages[0].endswith("the answer 'cat' is not in data.answers") and len(messages) == 1
    assert source.fingerprint != questions(answers=("cow", "dog"), length=12).open().fingerprint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(answers=("dog",)), r"data.answers: expected two answers or more, each once, got \('dog',\)"),
        (dict(answers=("cat", "cat")), "data.answers: expected two answers or more, each once"),
        (dict(unusable="refuse"), "data.unusable: expected usable questions, got .*an empty question"),
        (
            dict(unusable="refuse", answers=("cat", "cow")),
            "data.unusable: expected usable questions, got .*the answer 'dog' is not in data.answers",
        ),
        (
            dict(length=9),
            "data.too_long: expected records of at most 7 tokens, which data.length = 9 leaves .*9 tokens",
        ),
        (dict(length=2), "data.length: expected at least 3"),
        (dict(questions=TemplateQuestions()), r"data.questions.answer: expected a feature .*got 'answer'"),
        (dict(questions=PresenceQuestions()), "data.questions.objects: expected a feature"),
        (dict(image_feature="caption"), "data.image_feature: expected a feature"),
        (dict(shape=(4, 4, 3)), "data.shape: expected"),
    ],
)
def test_what_is_refused(questions, fields, message):
    with pytest.raises(UserError, match=message):
        questions(**fields).open()


def test_an_evaluation_has_the_training_datas_questions(questions):
    train = questions()
    evaluation = follow_training_data(ShuffledImages(ImageQuestions(split="train[:2]", unusable="skip")), train)
    assert evaluation.data.answers == ("cat", "dog") and evaluation.data.questions == train.questions
    assert len(evaluation.open()) == 2


def test_shuffled_images_are_those_of_other_examples(questions):
    data = questions()
    source, shuffled = data.open(), ShuffledImages(data).open()
    count = len(source)
    before, after = ([part.example(index, 0, None) for index in range(count)] for part in (source, shuffled))
    images = [example["image"].tobytes() for example in before]
    moved = [images.index(example["image"].tobytes()) for example in after]
    assert sorted(moved) == [*range(count)] and all(index != other for index, other in enumerate(moved))
    for one, other in zip(before, after, strict=True):
        assert all(np.array_equal(one[key], other[key]) for key in one if key != "image")
    assert shuffled.fingerprint != source.fingerprint
    with pytest.raises(UserError, match="data.data: expected a data set with images, got 'LabelledText'"):
        ShuffledImages(LabelledText("made_captions", data_dir=data.data_dir, text=("caption",))).check()
    with pytest.raises(UserError, match="data.data.answers: expected two answers"):
        ShuffledImages(questions(answers=())).check()
