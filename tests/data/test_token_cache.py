"""The token cache: the text's own tokens, built once and atomically."""

import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from txjax.data import TFDS, Bytes, Characters
from txjax.data.loading import disk_cache as data_cache
from txjax.data.sources.record_source import RecordSplit
from txjax.data.text import token_cache as tokens
from txjax.data.text.token_cache import open_tokens

SPLIT = RecordSplit(TFDS("txjax_python_text"), "validation")
ARGUMENTS = (SPLIT, "text")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty token cache; the data sets are shared."""
    monkeypatch.setattr(data_cache, "cache_dir", lambda: tmp_path)
    return tmp_path / "tokens"


@pytest.fixture(scope="module")
def texts():
    source = SPLIT.open(["text"])
    return [record["text"] for record in source.read(0, len(source))]


def only(cache):
    (folder,) = (path for path in cache.iterdir() if not path.name.startswith("."))
    return folder


def test_tokens_and_documents_are_those_of_the_text(cache, texts):
    found = open_tokens(*ARGUMENTS, Bytes())
    assert found.tokens.dtype == np.uint8 and found.tokens.tobytes() == b"".join(texts)
    ends = np.cumsum([len(text) for text in texts])
    np.testing.assert_array_equal(found.documents, [0, *ends])
    assert found.document(0) == (0, ends[0])
    assert found.document(ends[0] - 1) == (0, ends[0]) and found.document(ends[0]) == (ends[0], ends[1])
    read = found.read(5, 7)
    assert read.dtype == np.int32 and bytes(read.astype(np.uint8)) == b"".join(texts)[5:12]


def test_a_record_without_text_keeps_its_number(cache, monkeypatch, texts):
    monkeypatch.setattr(tokens, "BATCH", 3)
    encode_batch = Bytes.encode_batch
    monkeypatch.setattr(
        Bytes, "encode_batch", lambda self, batch: encode_batch(self, [t if len(t) % 2 else b"" for t in batch])
    )
    found = open_tokens(*ARGUMENTS, Bytes())
    shown = [text if len(text) % 2 else b"" for text in texts]
    assert b"" in shown and len(found.documents) == len(texts) + 1
    for number, text in enumerate(shown):
        assert found.text(number).astype(np.uint8).tobytes() == text
        if text:
            first, end = found.documents[number : number + 2]
            assert found.document(first) == found.document(end - 1) == (first, end)


def test_the_smallest_dtype_that_fits_is_used(cache):
    assert open_tokens(*ARGUMENTS, Bytes(("[MASK]",))).tokens.dtype == np.uint16


def test_each_split_and_tokenizer_has_its_own(cache):
    prints = {
        open_tokens(RecordSplit(TFDS("txjax_python_text"), split), "text", tokenizer).fingerprint
        for split in ("validation", "validation[:50%]")
        for tokenizer in (Bytes(), Bytes(("[MASK]",)))
    }
    assert len(prints) == 4


def test_it_is_built_once(cache, monkeypatch):
    first = open_tokens(*ARGUMENTS, Bytes())
    monkeypatch.setattr(Bytes, "encode_batch", lambda *_: pytest.fail("built again"))
    assert open_tokens(*ARGUMENTS, Bytes()).fingerprint == first.fingerprint


@pytest.mark.parametrize("name", ["tokens.bin", "documents.bin", "meta.json", "made_from.json", "digests.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_a_damaged_cache_is_rebuilt(cache, caplog, texts, name, damage):
    open_tokens(SPLIT, "path", Bytes())
    path = only(cache) / name
    content = path.read_bytes()
    if damage == "flip":
        path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    with caplog.at_level(logging.WARNING):
        open_tokens(SPLIT, "path", Bytes())
    assert "is damaged" in caplog.text and "building it again" in caplog.text
    assert path.read_bytes() == content


def test_of_a_large_cache_the_size_is_still_verified(cache, caplog, monkeypatch):
    monkeypatch.setattr(data_cache, "DIGEST_LIMIT", 100)
    open_tokens(*ARGUMENTS, Bytes())
    path = only(cache) / "tokens.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with caplog.at_level(logging.WARNING):
        open_tokens(*ARGUMENTS, Bytes())
    assert "doesn't match the files" in caplog.text and path.read_bytes() == content


def test_a_failed_build_leaves_no_cache(cache):
    from txjax.types import UserError

    with pytest.raises(UserError, match="all characters of the text"):
        open_tokens(*ARGUMENTS, Characters(alphabet="abc"))
    assert not [path for path in cache.iterdir() if not path.name.startswith(".")]


SLOW_BUILD = """
import sys, time
from pathlib import Path
from txjax.data import TFDS, Bytes
from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import RecordSplit
from txjax.data.text import token_cache
disk_cache.cache_dir = lambda: Path(sys.argv[1])
token_cache.BATCH = 4
encode_batch = Bytes.encode_batch
def slowly(self, texts):
    print("batch", flush=True)
    time.sleep(float(sys.argv[2]))
    return encode_batch(self, texts)
Bytes.encode_batch = slowly
found = token_cache.open_tokens(RecordSplit(TFDS("txjax_python_text"), "validation"), "text", Bytes())
print(len(found), found.fingerprint, flush=True)
"""


def build(folder, seconds):
    command = [sys.executable, "-c", SLOW_BUILD, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_interrupted_build_is_repeated(cache, texts):
    process = build(cache.parent, 60)
    assert process.stdout.readline() == "batch\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (unfinished,) = cache.glob(".*.building")
    assert (unfinished / "tokens.bin").exists()
    found = open_tokens(*ARGUMENTS, Bytes())
    assert found.tokens.tobytes() == b"".join(texts)
    assert not unfinished.exists()


def test_two_builders_make_one_cache(cache, texts):
    first = build(cache.parent, 0.05)
    assert first.stdout.readline() == "batch\n"
    began = time.monotonic()
    second = build(cache.parent, 0.05)
    outs = [process.communicate(timeout=100)[0] for process in (first, second)]
    assert time.monotonic() - began < 100
    assert "batch" in outs[0] and "batch" not in outs[1]  # the second one waited and read
    assert outs[0].splitlines()[-1] == outs[1].splitlines()[-1]
    assert only(cache).is_dir()


@pytest.mark.slow
def test_shakespeare_by_characters(cache, tfds_dir):
    tokenizer = Characters()
    found = open_tokens(RecordSplit(TFDS("tiny_shakespeare", str(tfds_dir)), "train"), "text", tokenizer)
    assert len(found) == 1_003_854 and len(found.documents) == 2
    assert tokenizer.decode(found.read(0, 14)) == "First Citizen:"
