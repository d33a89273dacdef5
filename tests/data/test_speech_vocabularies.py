"""Tokenizers of Wav2Vec2 and of Speech2Text, as transformers saves them."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from txjax.data import TokenizerFolder
from txjax.types import UserError

from helpers.published_tokenizers import corpus, settings

ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
CHARACTERS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDL'")
TEXTS = ("THE TOAD'S HAT", "A <s> B", "é", "the old man")


def characters(folder: Path, **entries: Any) -> Path:
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(CHARACTERS)}))
    return settings(folder, **{"tokenizer_class": "Wav2Vec2CTCTokenizer", **ROLES, **entries})


def pieces(folder: Path) -> Path:
    """A Unigram model, and ids that are not its own: those of fairseq's dictionary."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=300,
        model_type="unigram",
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    text = [model.id_to_piece(number) for number in range(3, model.vocab_size())]
    names = ["<s>", "<pad>", "</s>", "<unk>", *text[::-1]]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    return settings(folder, tokenizer_class="Speech2TextTokenizer", **ROLES)


def encoded(tokenizer: TokenizerFolder, text: str) -> list[int]:
    """The ids of a text, without special tokens."""
    return tokenizer.encode(text).tolist()


def test_characters_have_a_sign_for_the_space(tmp_path: Path) -> None:
    tokenizer = TokenizerFolder(str(characters(tmp_path)))
    assert encoded(tokenizer, "HE IS") == [11, 5, 4, 10, 12]
    assert tokenizer.decode([11, 5, 4, 10, 12]) == "HE IS" and tokenizer.vocab() == len(CHARACTERS)
    assert encoded(tokenizer, "he") == [3, 3]
    roles = tokenizer.roles()
    assert (roles.pad, roles.bos, roles.eos, roles.unk) == (0, 1, (2,), 3)


def test_another_class_of_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = characters(tmp_path, tokenizer_class="Wav2Vec2PhonemeCTCTokenizer")
    with pytest.raises(UserError, match="a tokenizer_class among Wav2Vec2CTCTokenizer for vocab.json"):
        TokenizerFolder(str(folder)).check()


def test_pieces_have_the_ids_of_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = TokenizerFolder(str(pieces(tmp_path)))
    text = "a model of two tokens"
    assert tokenizer.decode(encoded(tokenizer, text)) == text
    assert tokenizer.vocab() == len(json.loads((tmp_path / "vocab.json").read_text()))
    before = tokenizer.vocabulary_digest()
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    (name,) = [name for name, number in vocabulary.items() if number == 9]
    vocabulary[name] = 1000
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    assert tokenizer.vocabulary_digest() != before
    settings(tmp_path, tokenizer_class="Speech2TextTokenizer", **ROLES, unk="<unk>")
    with pytest.raises(UserError, match=r"expected the ids 0, 1, \.\.\. of special tokens and of all pieces"):
        TokenizerFolder(str(tmp_path)).check()


@pytest.mark.slow
@pytest.mark.parametrize(("write", "name"), [(characters, "Wav2Vec2CTCTokenizer"), (pieces, "Speech2TextTokenizer")])
def test_ids_are_those_of_transformers(write: Any, name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")
    folder = write(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = getattr(transformers, name).from_pretrained(folder)
    tokenizer = TokenizerFolder(str(folder))
    for text in (*TEXTS, *corpus()[:40]):
        plain = " ".join(text.split()).replace("<s>", "")
        expected = reference(plain, add_special_tokens=False)["input_ids"]
        assert encoded(tokenizer, plain) == expected, plain
    assert tokenizer.roles().eos == (reference.eos_token_id,) and tokenizer.roles().pad == reference.pad_token_id
