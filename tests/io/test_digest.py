"""Digests of files: their definition, in chunks that several cores hash, and the name of their algorithm."""

import hashlib
import json
import os

import pytest

from txjax.io import digest
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Checkpoints", "a digest is SHA-256 of the digests of chunks, finds any flipped bit, and names its algorithm"
)

CHUNK = 4 << 20


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_a_digest_is_of_the_digests_of_chunks(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    digest.commit(tmp_path)
    total = hashlib.sha256()
    for start in range(0, max(size, 1), CHUNK):
        total.update(hashlib.sha256(content[start : start + CHUNK]).digest())
    assert json.loads((tmp_path / digest.NAME).read_text()) == {"a": f"sha256-4MiB:{total.hexdigest()}"}


@pytest.mark.parametrize("position", [0, CHUNK - 1, CHUNK, 2 * CHUNK])
def test_a_flipped_bit_in_any_chunk(tmp_path, position):
    content = bytearray(os.urandom(2 * CHUNK + 1))
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(content)
    digest.commit(tmp_path)
    assert digest.faults(tmp_path) == []
    content[position] ^= 1
    (tmp_path / "b").write_bytes(content)
    assert digest.faults(tmp_path) == ["b was changed"]


def test_chunks_that_change_places(tmp_path):
    content = os.urandom(2 * CHUNK)
    (tmp_path / "a").write_bytes(content)
    digest.commit(tmp_path)
    (tmp_path / "a").write_bytes(content[CHUNK:] + content[:CHUNK])
    assert digest.faults(tmp_path) == ["a was changed"]


@pytest.mark.parametrize(
    "prefix, algorithm", [("blake9:", "blake9"), ("", "digests without a name")], ids=["another", "none"]
)
def test_an_unknown_algorithm_is_a_user_error_and_no_damage(tmp_path, prefix, algorithm):
    (tmp_path / "a").write_text("text")
    digest.commit(tmp_path)
    (tmp_path / digest.NAME).write_text(json.dumps({"a": f"{prefix}0123"}, indent=1, sort_keys=True) + "\n")
    with pytest.raises(
        UserError, match=f"expected digests by sha256-4MiB, got '{algorithm}'; another version of txjax"
    ):
        digest.faults(tmp_path)
