"""SentencePiece models give the ids that SentencePiece gives."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from txjax.data import SentencePieceFile
from txjax.data.records import Records
from txjax.types import UserError

sentencepiece = pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def lines():
    records = Records("txjax_python_text", "validation[:10%]", None, ["text"])
    texts = [record["text"].decode() for record in records.read(0, len(records))]
    return [line for text in texts for line in text.splitlines() if line.strip()][:2000]


@pytest.fixture(scope="module")
def path(tmp_path_factory, lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=300,
        user_defined_symbols=["[MASK]"],
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("pieces") / "small.model"
    path.write_bytes(model.getvalue())
    return str(path)


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


def test_the_content_counts_not_the_place(path, tmp_path):
    copy = tmp_path / "copy.model"
    copy.write_bytes(Path(path).read_bytes())
    assert SentencePieceFile(str(copy)).fingerprint() == SentencePieceFile(path).fingerprint()


def test_mistakes_are_named(path, tmp_path, monkeypatch):
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
