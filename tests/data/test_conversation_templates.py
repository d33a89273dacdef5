"""The templates of LLaVA's conversations: the texts of the authors' code."""

import pytest

from txjax.data import Bytes, PlainTemplate, Turn, VicunaTemplate
from txjax.data.multimodal.conversation_templates import UnusableConversation
from txjax.types import UserError

pytestmark = pytest.mark.claim("Data", "the texts of `plain` and `v1` are those of LLaVA's authors")

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)


def learned(template, turns):
    """The learned texts, with `/` for the end of an answer."""
    pieces = template.pieces(turns)
    return "".join(p.content if isinstance(p.content, str) else "/" for p in pieces if p.learned)


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        (
            [Turn("<image>\nWhat is this?", "A cat."), Turn("Is it black?", "Yes.")],
            " USER: <image>\nWhat is this? ASSISTANT: A cat.</s>USER: Is it black? ASSISTANT: Yes.</s>",
        ),
        ([Turn("What is this?\n<image>", "A cat.")], " USER: <image>\nWhat is this? ASSISTANT: A cat.</s>"),
        ([Turn("<image>", "A cat.")], " USER: <image> ASSISTANT: A cat.</s>"),
        ([Turn("Hello.", None)], " USER: Hello. ASSISTANT:"),
        (
            [Turn("Here are <image> and <image>.", "Yes."), Turn("And?", None)],
            " USER: Here are <image> and <image>. ASSISTANT: Yes.</s>USER: And? ASSISTANT:",
        ),
    ],
)
def test_the_text_of_turns_is_that_of_v1(turns, text):
    assert VicunaTemplate().text(turns) == SYSTEM + text
    answers = [turn.answer for turn in turns if turn.answer is not None]
    assert learned(VicunaTemplate(), turns) == "".join(f" {answer}/" for answer in answers)


def test_the_text_of_a_caption_is_that_of_plain():
    turns = [Turn("Describe the image.\n<image>", "A cat on a mat.")]
    assert PlainTemplate().text(turns) == "<image>A cat on a mat.\n"
    assert learned(PlainTemplate(), turns) == "A cat on a mat.\n"
    assert PlainTemplate().text([Turn("<image>\nDescribe.", None)]) == "<image>"
    with pytest.raises(UnusableConversation, match="2 turns, and PlainTemplate is for one"):
        PlainTemplate().pieces(turns * 2)


def test_other_words_and_another_end():
    template = VicunaTemplate(system="", user="Q: ", assistant="A:", separator="\n", end="[STOP]")
    assert template.text([Turn("Why?", "So.")], end="[STOP]") == "Q: Why?\nA: So.[STOP]"
    assert template.end_token(Bytes(specials=("</s>", "[STOP]"))) == 257
    assert VicunaTemplate().end_token(Bytes(specials=("<image>", "</s>"))) == 257
    assert PlainTemplate().end_token(Bytes()) is None
    with pytest.raises(UserError, match=r"data\.template\.end: expected the name of a special token, since"):
        VicunaTemplate().end_token(Bytes())
