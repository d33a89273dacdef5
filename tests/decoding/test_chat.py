"""Conversations in the cache: each turn reads its own tokens, and the answers are those of the whole as one prompt."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from txjax.data import ConversationFiles, Conversations, PlainTemplate, Turn, VicunaTemplate
from txjax.decoding import Cached, Chat, Conversation, Sampling, pad_prompts, prompts_for
from txjax.decoding.pictured_prompts import PicturedPrompt
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.text.decoder import Decoder
from txjax.objectives import model_inputs
from txjax.types import UserError

from helpers.arrays import variables
from helpers.conversation_folder import pixels, write

pytestmark = pytest.mark.claim(
    "Generation", "turns of a chat read their own tokens alone, and are answered as the whole conversation is"
)

DATA = Conversations(
    source=ConversationFiles(),
    template=VicunaTemplate(system=""),
    image_tokens=4,
    most_images=2,
    length=100,
    shape=(4, 4, 3),
    mean=(0.5,),
    std=(0.02,),
)
END = 257
KEY = jax.random.key(0)
FORM = prompts_for(DATA, "data")


class Recorded(Cached):
    """Remembers how many tokens each call reads that isn't of one token."""

    sizes: list[int] = []

    def start(self, variables, inputs, length):
        self.sizes.append(inputs["tokens"].shape[1])
        return super().start(variables, inputs, length)

    def resume(self, variables, state, inputs):
        if inputs["tokens"].shape[1] > 1:
            self.sizes.append(inputs["tokens"].shape[1])
        return super().resume(variables, state, inputs)


class Brief(Recorded):
    """Ends each answer after its first token."""

    def step(self, variables, state, tokens):
        logits, state = super().step(variables, state, tokens)
        return logits.at[:, END].add(1e3), state


def chat_of(generator, form=FORM) -> Chat:
    search = Sampling(temperature=0.0, end=FORM.end)
    return Chat(form, generator, search, 6, functools.partial(model_inputs, generator.model))


def answer_whole(generator, params, turns, images) -> list[int]:
    """The tokens of the last answer, with all turns as one prompt."""
    encoder = DATA.encoder()
    row = encoder.encode([turns])[0].with_patches(encoder.image_token, DATA.image_tokens)
    inputs = pad_prompts([row.ids]) | FORM.images([PicturedPrompt("", images)], "--image")
    search = Sampling(temperature=0.0, end=FORM.end)
    tokens = search(generator, params, model_inputs(generator.model, inputs), 6, KEY)[0].tolist()
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Recorded, Brief])
def test_answers_are_those_of_the_whole_conversation(tmp_path, kind):
    """Turns about an image, none and another one; what ends an answer that was cut begins the next question."""
    write(tmp_path, {"a.png": pixels(1), "b.png": pixels(2)})
    image, other = str(tmp_path / "a.png"), str(tmp_path / "b.png")
    vision = CLIPImageTower(patch=2, width=4, depth=1, heads=2, head=None)
    model = LLaVA(vocab=258, width=16, depth=2, heads=2, image_token=256, vision=vision)
    params = variables(model, tokens=jnp.full((1, 8), 256), image=jnp.zeros((1, 4, 4, 3)))
    session = chat_of(kind(model))
    conversation = Conversation()
    shown: tuple[str, ...] = ()
    missing_end = 0
    for question, images in (("What?", (image,)), ("And?", ()), ("This?", (other,))):
        kind.sizes.clear()
        before = len(conversation.tokens)
        conversation = session.ask(params, conversation, PicturedPrompt(question, images), KEY)
        size = missing_end + len(f"USER: {question} ASSISTANT:") + 5 * len(images)  # an image is 4 tokens and a line
        # Without images it is read in powers of two, of which each is traced once.
        assert kind.sizes == ([size] if images else [1 << bit for bit in range(9, 0, -1) if size >> bit & 1])
        *answered, (text, answer, *_) = conversation.turns
        shown += images
        tokens = list(conversation.tokens[before + size :])
        assert tokens == answer_whole(
            Brief(model) if kind is Brief else Cached(model), params, [*answered, Turn(text, None)], shown
        )
        assert answer == DATA.tokenizer.decode([token for token in tokens if token != END]).strip()
        missing_end = int(tokens[-1] != END)
        assert missing_end == (kind is Recorded)
    assert session.ask(params, Conversation(), PicturedPrompt("What?", (image,)), KEY).turns == conversation.turns[:1]
    with pytest.raises(UserError, match="--image: expected at most 0 images"):
        session.ask(params, conversation, PicturedPrompt("And?", (image,)), KEY)


def test_a_conversation_that_is_too_long_and_a_template_of_one_turn():
    model = Decoder(vocab=258, width=8, depth=1, heads=1)
    session = chat_of(Cached(model))
    with pytest.raises(UserError, match="--chat: expected a conversation of at most 99 tokens, .* got 217; /forget"):
        session.ask({}, Conversation(), PicturedPrompt("a" * 200), KEY)
    plain = prompts_for(dataclasses.replace(DATA, template=PlainTemplate()), "data")
    with pytest.raises(UserError, match="config.data.template: expected a template of several turns"):
        chat_of(Cached(model), plain)
