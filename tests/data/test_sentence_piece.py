"""SentencePiece models give the ids that SentencePiece gives."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from txjax.data import SentencePieceFile
from txjax.data.tfds.records import Records
from txjax.types import UserError

sentencepiece = pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def lines():
    records = Records("txjax_python_text", "validation[:10%]", None, ["text"])
    texts = [record["text"].decode() for record in records.read(0, len(records))]
    return [line for text in texts for line in text.splitlines() if line.strip()][:2000]


def trained(folder, lines, **options) -> str:
    """The path of a model, small.model in that folder."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, user_defined_symbols=["[MASK]"], minloglevel=2, **options
    )
    path = folder / "small.model"
    path.write_bytes(model.getvalue())
    return str(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory, lines):
    return trained(tmp_path_factory.mktemp("pieces"), lines, vocab_size=300)


def test_ids_and_texts_are_the_librarys(path, lines):
    found, library = SentencePieceFile(path), sentencepiece.SentencePieceProcessor(model_file=path)
    batch = found.encode_batch([*lines[:50], "", b"def \xff"])
    for line, ids in zip(lines[:50], batch, strict=False):
        assert ids.tolist() == library.encode(line) == found.encode(line.encode()).tolist()
        assert found.decode(ids) == library.decode(ids.tolist())
    assert len(batch[50]) == 0 and found.decode([]) == "" and batch[0].dtype == np.uint32
    assert found.vocab() == library.vocab_size() == 300
    assert found.decode([*found.encode("def x"), 300, *found.encode("y")]) == "def x\ufffdy"


def test_special_pieces_are_found_and_missing_ones_named(path):
    found = SentencePieceFile(path)
    assert (found.special("<s>"), found.special("</s>")) == (1, 2)
    assert found.decode([found.special("[MASK]")]) == "[MASK]"
    with pytest.raises(UserError, match=r"a model with the piece \[MSK\].*did you mean \[MASK\]"):
        found.special("[MSK]")


def test_specials_follow_the_files_pieces(path):
    found = SentencePieceFile(path, ("[SPAN_1]", "[SPAN_0]"))
    assert (found.vocab(), found.special("[SPAN_0]"), found.special("</s>")) == (302, 301, 2)
    assert found.special_ids() == {0, 1, 2, 300, 301}  # not [MASK], which text may have
    assert found.decode(np.array([*found.encode("def x"), 301, 302])) == "def x[SPAN_0]\ufffd"
    assert found.token_bytes().shape == (302,) and not found.token_bytes()[300:].any()


TEXTS = ["def x():", "  two  spaces,\t[MASK] and a tab ", "naïve café 🙂", ""]


def total(tokenizer, text):
    return int(tokenizer.token_bytes()[tokenizer.encode(text)].sum())


def test_bytes_of_tokens_add_up_to_the_text(lines, tmp_path):
    """For text without normalization; text outside the pieces becomes bytes."""
    exact = {"normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False}
    found = SentencePieceFile(trained(tmp_path, lines, vocab_size=500, byte_fallback=True, **exact))
    for text in [*TEXTS, *lines[:50]]:
        assert total(found, text) == len(text.encode())
    sizes = found.token_bytes()
    assert sizes.shape == (500,) and sizes.dtype == np.int32
    assert [sizes[found.special(name)] for name in ("<unk>", "<s>", "</s>", "<0xF0>", "[MASK]")] == [0, 0, 0, 1, 6]
    assert len(found.encode("🙂")) == 4


def test_a_space_before_the_text_counts_and_the_unknown_does_not(path):
    found = SentencePieceFile(path)
    assert total(found, "def x") == len("def x") + 1
    assert total(found, "def   x ") == len("def x") + 1  # its normalization removes the other spaces
    assert total(found, "def 🙂 x") == len("def  x") + 1


def test_the_fingerprint_is_of_the_content(path, tmp_path):
    copy = tmp_path / "copy.model"
    copy.write_bytes(Path(path).read_bytes())
    assert SentencePieceFile(str(copy)).fingerprint() == SentencePieceFile(path).fingerprint()
    assert SentencePieceFile(path, ("[A]",)).fingerprint() != SentencePieceFile(path).fingerprint()


def test_user_errors(path, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="a SentencePiece .model file.*did you mean small.model"):
        SentencePieceFile(path.replace("small", "smal")).check()
    broken = tmp_path / "broken.model"
    broken.write_bytes(b"no model")
    with pytest.raises(UserError, match="a SentencePiece .model file"):
        SentencePieceFile(str(broken)).check()
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"the package sentencepiece.*pip install 'txjax\[sentencepiece\]'"):
        SentencePieceFile(path).check()
