"""Questions about the images of records: by format strings, of the presence of a class, several kinds in turn."""

import numpy as np
import pytest
from tensorflow_datasets import features

from txjax.data import (
    AlternatingQuestions,
    BalancedPresenceQuestions,
    Conversations,
    ListingQuestions,
    PresenceQuestions,
    QuestionTurns,
    TemplateQuestions,
    Turn,
)
from txjax.types import UserError

CLASSES = features.ClassLabel(names=["cat", "dog", "cow"])
STATED = features.FeaturesDict(
    {
        "count": features.ClassLabel(num_classes=4),
        "objects": features.Sequence({"label": CLASSES}),
        "answers": features.Sequence(features.Text()),
    }
)
RECORD = {"count": 2, "objects": {"label": np.array([0, 2])}, "answers": np.array([b"2", b"two", b"2"], object)}
COUNT = TemplateQuestions("How many?", "{count}", kind="counting")


def test_kinds_take_turns_by_the_records_numbers():
    questions = AlternatingQuestions((COUNT, PresenceQuestions()))
    assert questions.features(STATED) == ("count", "objects")
    make = questions.function(STATED)
    assert [make(number, RECORD) for number in range(8)] == [
        Turn("How many?", "2", "counting"),
        Turn("Is there a cat?", "yes", "presence"),
        Turn("How many?", "2", "counting"),
        Turn("Is there a dog?", "no", "presence"),
        Turn("How many?", "2", "counting"),
        Turn("Is there a cow?", "yes", "presence"),
        Turn("How many?", "2", "counting"),
        Turn("Is there a cat?", "yes", "presence"),
    ]


def test_yes_and_no_take_turns():
    make = BalancedPresenceQuestions("{label}?").function(STATED)
    turns = [make(number, RECORD) for number in range(6)]
    assert [turn.answer for turn in turns] == ["yes", "no"] * 3
    assert [turn.question for turn in turns] == ["cat?", "dog?", "cow?", "dog?", "cat?", "dog?"]
    make = BalancedPresenceQuestions("{label}?", classes=("cow", "dog")).function(STATED)
    assert [make(number, RECORD).question for number in range(4)] == ["cow?", "dog?"] * 2
    for labels, answer in (([], "no"), ([0, 1, 2], "yes")):
        record = {"objects": {"label": np.array(labels)}}
        assert {make(number, record).answer for number in range(6)} == {answer}


def test_answers_of_several_people():
    questions = TemplateQuestions("How many?", "{count}", references="answers")
    assert questions.features(STATED) == ("count", "answers")
    assert questions.function(STATED)(0, RECORD) == Turn("How many?", "2", "", ("2", "two", "2"))


def test_the_objects_of_an_image_in_the_order_of_their_classes():
    make = ListingQuestions().function(STATED)
    record = {"objects": {"label": np.array([2, 0, 2])}}
    assert make(5, record) == Turn("What is there?", "cat cow cow", "listing")


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (AlternatingQuestions(), "questions.parts: expected at least one kind of question"),
        (PresenceQuestions(objects="object"), "questions.objects: expected a feature .* did you mean objects"),
        (PresenceQuestions(objects="answers"), "questions.objects: expected a sequence with a class label"),
        (ListingQuestions(objects="count"), "questions.objects: expected a feature of kind Sequence"),
        (PresenceQuestions("Is it there?"), r"questions.question: expected a format string with \{label\}"),
        (PresenceQuestions("Is {label there?"), r"questions.question: expected a format string with \{label\}"),
        (PresenceQuestions(classes=("dog", "cats")), "questions.classes: expected some of the 3 .* did you mean cat"),
        (TemplateQuestions("Who?", "{count}", references="objects"), "questions.references: expected a sequence of t"),
        (TemplateQuestions("Who?", "{count}", references="count"), "questions.references: expected a feature of kind"),
    ],
)
def test_features_that_the_set_lacks(questions, message):
    with pytest.raises(UserError, match=f"data.turns.{message}"):
        questions.features(STATED)


@pytest.mark.slow
def test_questions_about_canvases_of_digits():
    """The commonest answers of the training questions are right for 0.308 and 0.824 of the held-out ones."""
    count = TemplateQuestions("How many digits are there?", "{count}", kind="counting")
    turns = QuestionTurns(AlternatingQuestions((PresenceQuestions(), count)))
    shape = dict(image_feature="image", shape=(64, 64, 1), mean=(0.2,), std=(0.25,), image_tokens=64, length=300)
    source = Conversations("txjax_canvases", "test", turns=turns, **shape).open()
    answers = [source.turns(number)[0].answer for number in range(len(source))]
    assert answers[::2].count("no") == 206 and answers[1::2].count("1") == 77 and len(answers) == 500
