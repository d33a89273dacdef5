"""Tokenizers: round trips, and errors for text outside the vocabulary."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from txjax.data import Bytes, Characters, TokenizerFolder
from txjax.types import UserError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A word tokenizer that pads, truncates and adds [CLS], none of which may reach the token cache."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[UNK]": 0, "[CLS]": 1, "red": 2, "green": 3, "blue": 4}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[CLS]"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return str(path)


def test_bytes_round_trip_any_text():
    tokenizer = Bytes(specials=("[MASK]",))
    text = "for x in 'äöü€😀':\n\tpass\0"
    ids = tokenizer.encode(text)
    np.testing.assert_array_equal(ids, list(text.encode()))
    np.testing.assert_array_equal(ids, tokenizer.encode(text.encode()))
    assert tokenizer.decode(ids) == text
    assert (tokenizer.vocab(), tokenizer.special("[MASK]")) == (257, 256)
    assert tokenizer.decode([65, 256, 0xC3, 66, 999]) == "A[MASK]\ufffdB\ufffd"


def test_characters_round_trip_and_are_numbered_by_the_alphabet():
    tokenizer = Characters(alphabet="zaé", specials=("[SEP]",))
    np.testing.assert_array_equal(tokenizer.encode("éaz"), [2, 1, 0])
    np.testing.assert_array_equal(tokenizer.encode("éaz".encode()), [2, 1, 0])
    assert tokenizer.decode([2, 1, 0, 3, 4]) == "éaz[SEP]\ufffd"
    assert (tokenizer.vocab(), tokenizer.special("[SEP]"), len(tokenizer.encode(""))) == (4, 3, 0)


def test_default_alphabet_covers_shakespeare():
    text = "First Citizen:\nBefore we proceed any further, hear me speak; 3 & $ - 'tis!?"
    assert Characters().decode(Characters().encode(text)) == text


def test_unknown_characters_are_named_with_a_sufficient_alphabet():
    with pytest.raises(UserError, match=r"got \"none of 'bd'\"; set alphabet to 'abcd'") as error:
        Characters(alphabet="ca").encode("abcd")
    assert error.value.field == "data.tokenizer.alphabet"


def test_alphabet_with_a_character_twice_is_refused():
    with pytest.raises(UserError, match="distinct characters"):
        Characters(alphabet="aba").check()


def test_file_gives_the_ids_of_the_words_and_nothing_else(path):
    tokenizer = TokenizerFolder(path)
    batch = tokenizer.encode_batch(["red green blue red", b"blue", ""])
    assert [ids.tolist() for ids in batch] == [[2, 3, 4, 2], [4], []]
    assert tokenizer.decode([2, 1]) == "red [CLS]"
    assert (tokenizer.vocab(), tokenizer.special("[CLS]")) == (5, 1)


def test_missing_and_broken_files_are_user_errors(path, tmp_path):
    with pytest.raises(UserError, match=r"expected a tokenizer.json.*did you mean tokenizer.json"):
        TokenizerFolder(path.replace(".json", ".jsn")).check()
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(UserError, match="it cannot be read"):
        TokenizerFolder(str(broken)).check()
    with pytest.raises(UserError, match=r"a tokenizer with the token \[CLZ\].*did you mean \[CLS\]"):
        TokenizerFolder(path).special("[CLZ]")
    with pytest.raises(UserError, match=r"the token \[MSK\] among them.*did you mean \[MASK\]"):
        Bytes(("[MASK]",)).special("[MSK]")


def test_fingerprints_differ_between_tokenizers(path, tmp_path):
    copy = tmp_path / "copy.json"
    copy.write_bytes(Path(path).read_bytes())
    tokenizers = [Bytes(), Bytes(("[A]",)), Characters(), Characters("ab"), TokenizerFolder(path)]
    prints = [t.fingerprint() for t in tokenizers]
    assert len(set(prints)) == len(prints)
    assert [dataclasses.replace(t).fingerprint() for t in tokenizers] == prints
    assert TokenizerFolder(str(copy)).fingerprint() == prints[-1]  # of the content, not the path
    copy.write_text(copy.read_text().replace("green", "grean"))
    assert TokenizerFolder(str(copy)).fingerprint() != prints[-1]


def test_names_of_special_tokens_in_prompts_are_tokens():
    tokenizer = Bytes(("[END]", "[END]ING"))
    (ids,) = tokenizer.parse_batch(["a[END]b[END]ING"])
    assert ids.tolist() == [97, 256, 98, 257]
    (ids,) = Characters("ab[]END", ("[END]",)).encode_prompts(["a[END]"])
    assert ids.tolist() == [0, 7]


def test_text_is_never_encoded_to_special_tokens(path):
    text = "red \0\n~ [MASK] [CLS]"
    letters = "".join(set(text))
    made = ((Bytes(("[MASK]", "[CLS]")), {256, 257}), (Characters(letters, ("[A]",)), {len(letters)}))
    for tokenizer, expected in made:
        assert tokenizer.special_ids() == expected and not expected & set(tokenizer.encode(text).tolist())
    assert TokenizerFolder(path).special_ids() == {1}
