"""Turns of a record: stored messages, or questions and answers made of other features."""

import numpy as np
import pytest

from txjax.data import Conversations, PlainTemplate, QuestionTurns, StoredTurns, TemplateQuestions, Turn
from txjax.data.multimodal.conversation_templates import UnusableConversation
from txjax.data.multimodal.conversation_turns import pair_messages
from txjax.types import UserError

from helpers import photo_set


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    files = [photo_set.file(photo_set.pixels(number)) for number in range(4)]
    data_dir = photo_set.prepare(tmp_path_factory.mktemp("tfds"), files)
    turns = QuestionTurns(TemplateQuestions("Which kind?", "kind {label}", kind="kinds"))
    fields = dict(image_feature="image", image_tokens=3, length=300, shape=(10, 12, 3), mean=(0.0,), std=(1.0,))
    return Conversations("made_photos", "train", data_dir, turns=turns, **fields)


def test_questions_and_answers_made_of_the_features_of_any_set(photos):
    source = photos.open()
    assert len(source) == 4 and source.turns(1) == [Turn("<image>\nWhich kind?", "kind 1", "kinds")]
    assert source.texts(np.array([2])) == [("<image>\nWhich kind?", "kind 2")]
    example = source.example(1, 0, np.random.default_rng(0))
    np.testing.assert_allclose(example["image"], photo_set.pixels(1) / 255, atol=1e-6)
    text = photos.tokenizer.decode(example["tokens"][example["segments"] > 0])
    assert text.endswith("USER: <image><image><image>\nWhich kind? ASSISTANT: kind 1")
    assert photos.tokenizer.decode(example["targets"][example["weights"] > 0]) == " kind 1</s>"


def test_a_question_that_depends_on_the_record(photos):
    turns = QuestionTurns(TemplateQuestions("{label_angle}", "{label}"), images=0)
    texts = Conversations(photos.name, "train", photos.data_dir, turns, PlainTemplate(), image_feature="")
    assert texts.open().turns(2) == [Turn("10", "2")]
    assert not texts.open().example(2, 0, np.random.default_rng(0))["image"].any()


def test_features_that_the_set_lacks(photos):
    def check(turns, **fields):
        where = dict(name=photos.name, data_dir=photos.data_dir, turns=turns)
        Conversations(**where | {"image_feature": "image"} | fields).check()

    def asked(question, answer):
        return QuestionTurns(TemplateQuestions(question, answer))

    with pytest.raises(UserError, match="data.turns.questions.answer: .* did you mean label"):
        check(asked("Which?", "{lable}"))
    with pytest.raises(UserError, match="data.turns.questions.question: .*format string"):
        check(asked("{", "{label}"))
    with pytest.raises(UserError, match="data.turns.feature: expected a feature of kind Sequence"):
        check(StoredTurns())
    with pytest.raises(UserError, match="data.turns.feature: expected a sequence of from and value, got 'no from'"):
        check(StoredTurns("objects"))
    with pytest.raises(UserError, match="data.image_feature: expected a feature of kind Image"):
        check(asked("Which?", "{label}"), image_feature="objects")


@pytest.mark.parametrize(
    ("speakers", "fault"),
    [
        ([], "a conversation without messages"),
        (["gpt", "human"], "message 1 is from 'gpt', not from 'human'"),
        (["human", "human"], "message 2 is from 'human', not from 'gpt'"),
        (["human", "gpt", "human"], "the last message has no answer"),
    ],
)
def test_messages_that_are_no_turns(speakers, fault):
    with pytest.raises(UnusableConversation, match=fault):
        pair_messages(speakers, ["text"] * len(speakers))
