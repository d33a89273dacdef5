"""Trained tokenizers: the library's result, reproducible, and cached atomically."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from txjax import tree
from txjax.data import BPE, Bytes, TokenizerFolder, Trained, Unigram, WordPiece
from txjax.data.loading import disk_cache
from txjax.data.tfds.records import Records
from txjax.data.tokenizers import trained_tokenizers as trained
from txjax.data.tokenizers.written_tokenizer import write_tokenizer
from txjax.types import UserError

pytestmark = pytest.mark.claim("Data", "trained tokenizers are the same bytes in two processes")

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SPLIT = "validation[:40%]"
KINDS = {"bpe": BPE(), "wordpiece": WordPiece(), "unigram": Unigram()}
TEXT = "def étude(self, [MASK]): return Über + '##[UNK]'  # 漢字 \t x\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One cache for this file's tokenizers, empty at first."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "cache_dir", lambda: folder)


def tokenizer(kind, size=500):
    return Trained(algorithm=KINDS[kind], size=size, name="txjax_python_text", split=SPLIT)


@pytest.fixture(scope="module")
def texts():
    source = Records("txjax_python_text", SPLIT, None, ["text"])
    return [record["text"].decode() for record in source.read(0, len(source))]


def vocabulary(found):
    return sorted(found.load().whole.get_vocab().items(), key=lambda item: item[1])


@pytest.mark.parametrize("kind", KINDS)
def test_specials_come_first_and_never_out_of_text(kind):
    found = tokenizer(kind)
    found.check()
    assert (found.vocab(), [found.special(name) for name in SPECIALS]) == (500, [0, 1, 2, 3, 4])
    assert [name for name, _ in vocabulary(found)[:5]] == list(SPECIALS)
    assert [number for _, number in vocabulary(found)] == list(range(500))
    ids = found.encode(TEXT)
    assert not np.isin(ids, [0, 2, 3, 4]).any()
    np.testing.assert_array_equal(found.encode_batch(["x", TEXT.encode()])[1], ids)
    assert found.decode([4, 500, 4]).replace(" ", "") == "[MASK]\ufffd[MASK]"


def test_byte_pairs_are_the_librarys_and_give_every_text_back(texts):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, min_frequency=2, initial_alphabet=alphabet, special_tokens=list(SPECIALS), show_progress=False
    )
    own.train_from_iterator(texts, trainer)
    found = tokenizer("bpe")
    assert vocabulary(found) == sorted(own.get_vocab().items(), key=lambda item: item[1])
    assert found.encode(texts[0]).tolist() == own.encode(texts[0]).ids
    for text in (TEXT, "".join(map(chr, range(1, 3000))), "", texts[1]):
        assert found.decode(found.encode(text)) == text


def test_word_pieces_are_the_longest_that_fit(texts):
    found = tokenizer("wordpiece")
    library = found.load().whole
    pieces, expected = library.get_vocab(), []
    for text in (TEXT, texts[0]):
        for word, _ in library.pre_tokenizer.pre_tokenize_str(library.normalizer.normalize_str(text)):
            cut, start = [], 0
            while start < len(word):
                mark = "##" if start else ""
                fits = [end for end in range(len(word), start, -1) if mark + word[start:end] in pieces]
                if not fits or len(word) > 100:
                    cut = ["[UNK]"]
                    break
                cut, start = [*cut, mark + word[start : fits[0]]], fits[0]
            expected += cut
    assert [library.id_to_token(i) for text in (TEXT, texts[0]) for i in found.encode(text)] == expected
    assert "[UNK]" in expected and any(piece.startswith("##") for piece in expected)
    assert found.decode(found.encode("DEF Étude")) == "def etude"


def test_word_pieces_of_rare_characters_are_unknown():
    few = Trained(algorithm=WordPiece(alphabet=20, lowercase=False), size=200, name="txjax_python_text", split=SPLIT)
    assert len({name.removeprefix("##") for name, _ in vocabulary(few)[5:] if len(name.removeprefix("##")) == 1}) == 20
    assert few.encode("Q").tolist() == [few.special("[UNK]")]


def test_unigram_cuts_are_the_likeliest(texts):
    found = tokenizer("unigram")
    library = found.load().whole
    scores = dict(map(tuple, json.loads(library.to_str())["model"]["vocab"]))
    for text in texts[0].split()[:300]:
        ids = found.encode(text)
        best = [0.0]
        for end in range(1, len(text) + 2):  # with the space before it
            word = "▁" + text
            best.append(max(best[s] + scores.get(word[s:end], -np.inf) for s in range(end)))
        cut = sum(scores[library.id_to_token(i)] for i in ids)
        assert 1 in ids or cut == pytest.approx(best[-1]), text
    assert found.decode(found.encode("the  same\ttext [MASK]")) == "the same text [MASK]"


AGAIN = """
import sys
from pathlib import Path
from txjax.data import BPE, TokenizerFolder, Trained, Unigram, WordPiece
from txjax.data.loading import disk_cache
disk_cache.cache_dir = lambda: Path(sys.argv[1])
for algorithm in (BPE(), WordPiece(), Unigram()):
    print(Trained(algorithm=algorithm, size=500, name="txjax_python_text", split=sys.argv[2]).fingerprint())
"""


def test_another_process_trains_the_same_bytes(folder, tmp_path):
    prints = [tokenizer(kind).fingerprint() for kind in KINDS]
    assert len(set(prints)) == 3
    done = subprocess.run([sys.executable, "-c", AGAIN, str(tmp_path), SPLIT], capture_output=True, text=True)
    assert done.stdout.split() == prints, done.stderr
    files = [sorted((place / "tokenizers").glob("*/tokenizer.json")) for place in (folder, tmp_path)]
    ours = {path.parent.name: path.read_bytes() for path in files[0]}
    assert len(files[1]) == 3 and all(ours[path.parent.name] == path.read_bytes() for path in files[1])


def test_it_is_trained_once_and_again_if_damaged(folder, monkeypatch, caplog):
    found = tokenizer("bpe", 300)
    before = found.fingerprint()
    monkeypatch.setattr(trained, "_opened", {})
    with monkeypatch.context() as patched:
        patched.setattr(BPE, "train", lambda *_: pytest.fail("trained again"))
        assert dataclasses.replace(found).fingerprint() == before
    (path,) = (p for p in folder.glob("tokenizers/*/tokenizer.json") if '"size": 300' in made_from(p))
    path.write_text(path.read_text()[:-1])
    monkeypatch.setattr(trained, "_opened", {})
    assert found.fingerprint() == before and "is damaged" in caplog.text


def made_from(path):
    return (path.parent / "made_from.json").read_text()


def test_a_vocabulary_smaller_than_size_is_a_warning(caplog):
    found = Trained(algorithm=WordPiece(min_count=10**6), size=5000, name="txjax_python_text", split=SPLIT)
    assert found.encode("a").size == 1 and "of the 5000 tokens" in caplog.text and found.vocab() == 5000
    assert "\ufffd" in found.decode([4000])


def test_json_round_trip():
    written = json.loads(json.dumps(tree.to_json(tokenizer("unigram"))))
    assert tree.from_json(written) == tokenizer("unigram")


def test_user_errors():
    def refused(**settings):
        with pytest.raises(UserError) as error:
            Trained(**{"name": "txjax_python_text"} | settings).check()
        return str(error.value)

    assert "data.tokenizer.size: expected at least 261" in refused(size=260)
    assert "the token [UNK] among them" in refused(algorithm=WordPiece(), specials=("[MASK]",))
    assert "distinct names" in refused(specials=("[A]", "[A]"))
    assert "data.tokenizer.features: " in refused(features=("txt",)) and "did you mean text" in refused(
        features=("txt",)
    )
    assert "data.tokenizer.name: " in refused(name="txjax_python_txt")
    with pytest.raises(UserError, match=r"the token \[MSK\] among them.*did you mean \[MASK\]"):
        Trained(name="txjax_python_text").special("[MSK]")
    with pytest.raises(UserError, match="data.tokenizer.size: expected at least .*, for the characters of the text"):
        Trained(algorithm=WordPiece(), size=20, name="txjax_python_text", split=SPLIT).encode("a")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "bytes"])
def test_transformers_reads_the_written_files(kind, tmp_path):
    """The ids and the texts are the same, with [CLS] and [SEP] around; and the parts of the special tokens."""
    transformers = pytest.importorskip("transformers")
    ours = Bytes(specials=SPECIALS) if kind == "bytes" else tokenizer(kind)
    write_tokenizer(ours, tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    again = TokenizerFolder(str(tmp_path))
    roles = ours.roles()
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.mask_token_id) == (roles.pad, roles.unk, roles.mask)
    assert again.roles() == roles and again.frame(2) == ours.frame(2)
    for text in ("def étude(self):\n    return  x", "Hello , World !", "漢字"):
        ids = ours.encode(text).tolist()
        assert theirs(text)["input_ids"] == [roles.cls, *ids, roles.sep]
        assert theirs(text, text)["input_ids"] == [roles.cls, *ids, roles.sep, *ids, roles.sep]
        assert again.encode(text).tolist() == ids and theirs.decode(ids) == ours.decode(ids)
