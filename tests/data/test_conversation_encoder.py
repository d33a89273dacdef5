"""Tokens of conversations, compared with the authors' preprocessing, written again from its description."""

import numpy as np
import pytest

from txjax.data import Characters, SentencePieceFile, Turn, VicunaTemplate
from txjax.data.multimodal.conversation_encoder import ConversationEncoder

from helpers import published_tokenizers

pytestmark = pytest.mark.claim(
    "Data",
    "the tokens of a conversation and which are learned equal the preprocessing of LLaVA's authors",
)

MARKER = "<image>"


class Pairwise(Characters):
    """Characters, but a colon and the space after it are one token."""

    def encode(self, text):
        ids = super().encode(text)
        colon, space = super().encode(": ")
        joined = np.flatnonzero((ids[:-1] == colon) & (ids[1:] == space))
        ids[joined] = self.vocab() - 1
        return np.delete(ids, joined + 1)


def test_a_token_of_both_the_prompt_and_the_answer_is_learned():
    tokenizer = Pairwise("ASkQ: b", specials=("<image>", "</s>", "joined"))
    template = VicunaTemplate(system="", user="Q:", assistant="A:", end="</s>")
    row = ConversationEncoder(template, tokenizer, MARKER).encode([[Turn("k", "b")]])[0]
    assert tokenizer.decode(row.ids) == "Q:k Ajoinedb</s>"
    assert row.learned.tolist() == [False] * 5 + [True] * 3


def test_each_image_becomes_its_patches():
    tokenizer = Characters("ASkQ: b", specials=("<image>", "</s>"))
    template = VicunaTemplate(system="", user="Q:", assistant="A:")
    row = ConversationEncoder(template, tokenizer, MARKER).encode([[Turn("<image>k<image>", "b")]])[0]
    whole = row.with_patches(tokenizer.special(MARKER), 2)
    assert tokenizer.decode(whole.ids) == "Q:<image><image>k<image><image> A: b</s>"
    assert whole.learned.tolist() == [False] * 10 + [True] * 3


@pytest.mark.slow
def test_tokens_and_learned_ones_are_those_of_the_authors_code(tmp_path):
    """A text is cut at the markers, and at the end tokens; of each round the instruction is masked but for the space
    before the answer, which is a token of the instruction alone."""
    import sentencepiece

    pytest.importorskip("mistral_common")
    path = published_tokenizers.mistral(tmp_path) / "tokenizer.model"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = SentencePieceFile(str(path), specials=(MARKER,))
    turns = [
        Turn("<image>\nWhat is this?", "A cat."),
        Turn("Is it black?", "No, it is 90% white."),
        Turn("Why?", "So."),
    ]
    image, end = tokenizer.special(MARKER), tokenizer.special("</s>")

    def encode(text: str) -> list[int]:
        chunks = [[[*pieces.encode(part), end] for part in chunk.split("</s>")] for chunk in text.split(MARKER)]
        rows = [[token for part in chunk for token in part][:-1] for chunk in chunks]
        return [token for row in rows for token in [image, *row]][1:]

    template = VicunaTemplate()
    text = template.text(turns)
    learned = []
    for part in text.split("</s>")[:-1]:
        instruction = part.split(" ASSISTANT: ")[0] + " ASSISTANT: "
        size = len(encode(instruction)) - 1
        learned += [False] * size + [True] * (len(encode(part)) + 1 - size)
    row = ConversationEncoder(template, tokenizer, MARKER).encode([turns])[0]
    assert row.ids.tolist() == encode(text)
    assert row.learned.tolist() == learned
