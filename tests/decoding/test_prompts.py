"""Prompts as the inputs of the first call: texts that are continued, and sources."""

import dataclasses

import numpy as np
import pytest

from txjax.data import Bytes, Completions, Dataset, Mixture, NextTokenWindows, Pairs, TextWindows, TokenizerFolder
from txjax.data.loading.default_eval_data import fill_default_fields
from txjax.decoding import Beginnings, Sources, prompts_for
from txjax.types import UserError

from helpers import published_tokenizers as published

pytestmark = pytest.mark.claim("Generation", "prompts by a run's data: beginnings and sources, formats, long ones")

START, END = 256, 257
PAIRS = Pairs(name="made", source_text="say: {first}", target_text="{second}", source_length=12, length=8)


def sources(data: Dataset, *prompts: str) -> list[str]:
    """The source texts, as the model reads them: padding is left out."""
    given = prompts_for(data, "data").inputs(prompts, "prompts")
    real = given.get("source_segments", np.ones_like(given["source_tokens"]))
    assert (np.diff(np.asarray(real)) <= 0).all()  # padding is on the right
    return [
        Bytes(("<s>", "</s>")).decode(row[keep > 0]) for row, keep in zip(given["source_tokens"], real, strict=True)
    ]


def test_a_source_is_put_into_the_format_of_one_feature() -> None:
    two = dataclasses.replace(PAIRS, source_text="{first} {second}")
    other, number = (dataclasses.replace(PAIRS, source_text=text) for text in ("ask: {first}", "{score:.1f}"))
    assert sources(PAIRS, "a dog", "{}") == ["say: a dog</s>", "say: {}</s>"]
    assert sources(Mixture(parts={"a": PAIRS, "b": PAIRS}), "a dog") == ["say: a dog</s>"]
    for data in (two, number, Mixture(parts={"a": PAIRS, "b": other})):
        assert sources(data, "say: a dog") == ["say: a dog</s>"]


def test_the_target_of_a_source_begins_with_the_start_token() -> None:
    form = prompts_for(PAIRS, "data")
    given = form.inputs(["one", "four"], "prompts")
    assert isinstance(form, Sources) and form.end == (END,)
    assert np.asarray(given["tokens"]).tolist() == [[START], [START]]
    assert np.asarray(given["source_segments"]).tolist() == [[1] * 9 + [0], [1] * 10]
    assert "source_segments" not in form.inputs(["one", "two"], "prompts")


def test_an_answer_ends_at_the_end_token_of_its_data() -> None:
    one, other = (Completions(name="made", tokenizer=Bytes(specials=("a", "b")), end=end) for end in "ab")
    of_one = prompts_for(Mixture(parts={"1": one, "2": one}), "data")
    assert isinstance(of_one, Beginnings) and of_one.end == (256,)
    assert prompts_for(other, "data").end == (257,)
    assert prompts_for(Mixture(parts={"1": one, "2": other}), "data").end == ()
    windows = NextTokenWindows(tokenizer=one.tokenizer)
    assert prompts_for(Mixture(parts={"1": one, "2": windows}), "data").end == (256,)


def test_long_sources_are_cut_with_a_count_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert sources(PAIRS, "a dog", "a long dog") == ["say: a dog</s>", "say: a long</s>"]
    assert "prompts: 1 of 2 sources lose their last tokens: at most 11 tokens" in caplog.text
    for choice in ("drop", "refuse"):
        said = f"prompts: expected at most 11 tokens, .*, got 15; data.too_long is {choice}"
        with pytest.raises(UserError, match=said):
            sources(dataclasses.replace(PAIRS, too_long=choice), "a dog", "a long dog")


def test_a_prompt_needs_a_token_and_a_model_text() -> None:
    for data, hint in ((PAIRS, "reads a source"), (fill_default_fields(NextTokenWindows()), "continues a text")):
        with pytest.raises(UserError, match=f"prompts: expected at least one token, got ''; .*{hint}"):
            prompts_for(data, "data").inputs(["a", ""], "prompts")
    assert isinstance(prompts_for(fill_default_fields(NextTokenWindows()), "data"), Beginnings)
    with pytest.raises(UserError, match=r"data: expected text of a decoder, .* got 'TextWindows'"):
        prompts_for(TextWindows(), "data")


@pytest.mark.parametrize("form", ["t5", "bert", "gpt2", "llama"])
def test_prompt_and_new_text_are_the_text_of_all_tokens(form, tmp_path) -> None:
    tokenizer = TokenizerFolder(str(getattr(published, form)(tmp_path)))
    prompts = prompts_for(NextTokenWindows(tokenizer=tokenizer), "data")
    new = tokenizer.encode("man of the")
    for prompt in ("The old", "The old ", "one,", "café"):
        (ids,) = tokenizer.parse_batch([prompt])
        assert prompts.text_before(prompt) + prompts.text(prompt, new) == tokenizer.decode([*ids, *new])
    if form in ("t5", "bert"):  # whose tokens of words bring the space before them
        assert prompts.text_before("The old") + prompts.text("The old", new) in (
            "The old man of the",
            "the old man of the",
        )


def test_texts_end_where_their_tokenizer_says(tmp_path) -> None:
    tokenizer = TokenizerFolder(str(published.llama(tmp_path)))
    assert prompts_for(NextTokenWindows(tokenizer=tokenizer), "data").end == (2, 1)
    assert prompts_for(NextTokenWindows(tokenizer=tokenizer, end="<|end|>"), "data").end == (1, 2)
    assert prompts_for(Completions("made", tokenizer=tokenizer), "data").end == (2, 1)
    assert prompts_for(Completions("made", tokenizer=tokenizer, end="<|end|>"), "data").end == (1,)
