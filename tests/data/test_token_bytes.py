"""The bytes per token sum to the bytes of the text."""

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from txjax.data import Bytes, Characters, TokenizerFolder

TEXTS = ["The naïve café costs 5 €.", "  two  spaces,\n\tand a tab 🙂", "the the the end"]


def trained(path, model, trainer, pre_tokenizer, decoder, normalizer=None) -> TokenizerFolder:
    built = tokenizers.Tokenizer(model)
    built.pre_tokenizer, built.decoder = pre_tokenizer, decoder
    if normalizer is not None:
        built.normalizer = normalizer
    built.train_from_iterator(TEXTS, trainer)
    built.add_tokens(["naïve"])
    built.save(str(path))
    return TokenizerFolder(path=str(path))


def total(tokenizer, text: str) -> int:
    return int(tokenizer.token_bytes()[tokenizer.encode(text)].sum())


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_and_characters(text):
    assert total(Bytes(), text) == len(text.encode())
    assert total(Characters(alphabet="".join(sorted(set(text))), specials=("<end>",)), text) == len(text.encode())


def test_specials_have_no_bytes():
    assert Bytes(specials=("<a>", "<b>")).token_bytes().tolist() == [1] * 256 + [0, 0]
    assert Characters(alphabet="aé", specials=("<end>",)).token_bytes().tolist() == [1, 2, 0]


def test_byte_level_bpe(tmp_path):
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = trained(tmp_path / "bpe.json", models.BPE(), trainer, level, decoders.ByteLevel())
    for text in TEXTS:
        assert len(tokenizer.encode(text)) < len(text.encode()) == total(tokenizer, text)
    sizes = tokenizer.token_bytes()
    assert sizes.shape == (tokenizer.vocab(),) and sizes.dtype == np.int32
    assert sizes[tokenizer.special("<|endoftext|>")] == 0 and sizes[tokenizer.special("naïve")] == 6


def test_metaspace_counts_the_space_that_it_puts_before_a_text(tmp_path):
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["<s>"], show_progress=False)
    parts = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    marks = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = trained(tmp_path / "llama.json", models.BPE(byte_fallback=True), trainer, None, parts, marks)
    for text in TEXTS:
        assert total(tokenizer, text) >= len(text.encode()) + 1
    assert total(tokenizer, TEXTS[2]) == len(TEXTS[2].encode()) + 1
    one = trained(
        tmp_path / "meta.json",
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=100, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False),
        pre_tokenizers.Metaspace(),
        decoders.Metaspace(),
    )
    assert total(one, "the end") == len(b" the end")


def test_word_piece_has_no_token_bytes(tmp_path):
    trainer = trainers.WordPieceTrainer(vocab_size=100, special_tokens=["[UNK]"], show_progress=False)
    pieces = models.WordPiece(unk_token="[UNK]")
    tokenizer = trained(tmp_path / "wp.json", pieces, trainer, pre_tokenizers.Whitespace(), decoders.WordPiece())
    assert tokenizer.token_bytes() is None
