"""Files of buckets (`s3://`, `gs://`) and of web servers (`https://`), read by ranges through blocks on the local disk.

The version of a file is its ETag, or the time of its last change where a server has no ETags. It is in the name of the
file's blocks, and each answer is compared with it: all bytes that a run reads are of the version that it began with.

A bit may flip on the way where requests are not encrypted. An ETag that is an MD5, as S3 has it of objects that were
not uploaded in parts, is compared when a file is first read; what is read later is compared with checksums of then.
"""

import dataclasses
import errno
import fnmatch
import functools
import glob
import hashlib
import os
import re
import shutil
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from txjax.data.loading import disk_cache
from txjax.data.sources.file_states import BUFFER, FileState, LocalFile, T
from txjax.data.sources.hashed_file import HashedFile, open_reader
from txjax.data.tfds.records import ChangedData
from txjax.errors import RunError, UserError
from txjax.io.block_cache import BlockCache
from txjax.io.cache_dir import cache_dir
from txjax.io.ordered_md5 import OrderedMD5
from txjax.io.store_client import StoreClient

FIELD = "data.source"
LIMIT_VARIABLE = "TXJAX_REMOTE_CACHE_GB"
LIMIT_GB = 50.0
FETCHES = 4  # of a file whose content is not what its ETag says
LIST_SECONDS = 10.0  # in which the checks before a run, of which each looks for the files, take one answer


def is_url(path: str) -> bool:
    """Whether a path is the URL of a file, or of files, that can be read."""
    return re.match("(s3|gs|https?)://", path) is not None


@dataclasses.dataclass(frozen=True)
class RemoteFile(FileState):
    """A file of a bucket or of a web server. It is compared whenever bytes of it are fetched."""

    version: ClassVar[str] = "version"
    is_remote: ClassVar[bool] = True

    @functools.cached_property
    def _name(self) -> str:
        """The name of this version in the cache."""
        return hashlib.blake2b(repr(dataclasses.astuple(self)).encode(), digest_size=16).hexdigest()

    def check(self) -> None:
        pass

    def read(self, start: int, end: int) -> bytes:
        return self._blocks().read(self._name, self.size, start, min(end, self.size), self._fetch)

    def verified(self, act: Callable[[FileState], T]) -> T:
        """As in the base class. Two fetches that are equal are right, too: an encrypted object's ETag is no MD5."""
        if not re.fullmatch("[0-9a-f]{32}", str(self.changed)):
            return act(self)
        digests = {str(self.changed)}
        for _ in range(FETCHES):
            file = HashedFile(self.path, self.size, self.changed, self, OrderedMD5(self.size))
            try:
                result = act(file)
            except (RunError, ChangedData):
                raise
            except Exception:  # which may follow from bytes that are wrong
                if file.is_one_of(digests):
                    raise
            else:
                if file.is_one_of(digests):
                    return result
            self._blocks().remove(self._name, self.size, 0, self.size)
        raise RunError(f"{self.path} has other bytes at each of {FETCHES} fetches")

    def reads(self, start: int, end: int) -> Iterator[bytes]:
        yield self.read(start, end)
        self._blocks().remove(self._name, self.size, start, min(end, self.size))
        yield self.read(start, end)

    def _blocks(self) -> BlockCache:
        return _block_cache(os.environ.get("TXJAX_CACHE_DIR"))

    def _fetch(self, start: int, end: int) -> bytes:
        root, key = split_url(self.path)
        answer = open_store(root, os.getpid()).get(key, start, end)
        if answer is None:
            raise self.missing(os.strerror(errno.ENOENT))
        meta, content = answer
        self.compare(_state(self.path, meta))
        return content

    def open(self) -> BinaryIO:
        return open_reader(self)

    def read_all(self) -> bytes:
        return self.read(0, self.size)

    def on_disk(self) -> LocalFile:
        name = Path(self.path).name

        def build(folder: Path) -> None:
            self.verified(functools.partial(_copy, folder / name))

        made_from = {"file": dataclasses.astuple(self)}
        return disk_cache.get_or_build("copies", made_from, build, lambda folder: LocalFile.of(str(folder / name)))


class RemoteStore(StoreClient):
    """A bucket or a web server. All methods raise what `repeat` raises."""

    def __init__(self, url: str):
        super().__init__(FIELD, url, "a file, or a pattern of files, that can be read")

    def final_error(self, key: str, error: Exception) -> UserError:
        named = super().final_error(key, error)
        return UserError(named.field, named.expected, f"{self.url}/{key}", hint=named.hint)

    def head(self, key: str) -> Any:
        """What is known of a file; None if there is none."""
        return self.repeat(key, lambda: self.store.head(key), absent=None)

    def get(self, key: str, start: int, end: int) -> tuple[Any, bytes] | None:
        """What is known of a file, and its bytes `start` to `end` - 1, or up to its end; None if there is no file."""
        return self.repeat(key, lambda: self._get(key, start, end), absent=None)

    def _get(self, key: str, start: int, end: int) -> tuple[Any, bytes]:
        try:
            answer = self.store.get(key, options={"range": (start, end)})
        except Exception as error:
            if "status code: 416" in str(error):  # the file has become shorter
                return self.store.head(key), b""
            raise
        content = bytes(answer.bytes())
        if len(content) < min(end, answer.meta["size"]) - start:
            raise ConnectionError("the answer is cut")
        return answer.meta, content

    def list_folder(self, folder: str) -> list[Any]:
        """What is known of the files of a folder."""
        return list(self.repeat(folder, lambda: self.store.list_with_delimiter(folder or None))["objects"])

    def list_tree(self, folder: str) -> list[Any]:
        """What is known of the files of a folder and of all folders in it."""
        return [meta for page in self.repeat(folder, lambda: list(self.store.list(folder or None))) for meta in page]


@functools.lru_cache(maxsize=64)
def open_store(root: str, process: int) -> RemoteStore:
    """The store of a URL's root, one in each process."""
    return RemoteStore(root)


@functools.lru_cache(maxsize=8)
def _block_cache(parent: str | None) -> BlockCache:
    """The blocks in the cache folder, of which TXJAX_CACHE_DIR may name another one."""
    text = os.environ.get(LIMIT_VARIABLE) or str(LIMIT_GB)
    try:
        limit = int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise UserError(LIMIT_VARIABLE, "a number of GB", text) from None
    return BlockCache(cache_dir() / "blocks", limit, f"{LIMIT_VARIABLE} is the limit")


def _copy(to: Path, file: FileState) -> None:
    with file.open() as source, to.open("wb") as target:
        shutil.copyfileobj(source, target, BUFFER)


def split_url(url: str) -> tuple[str, str]:
    """The root of a URL, `s3://BUCKET` or `https://HOST`, and the key of its file there."""
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    return f"{scheme}://{host}", urllib.parse.unquote(key) if scheme.startswith("http") else key


def find_remote_files(pattern: str, field: str) -> Sequence[RemoteFile]:
    """The files of a URL, or of a pattern in a bucket, as they were at most `LIST_SECONDS` ago, without hidden ones.

    Raises:
      UserError: there are none; a pattern for a web server, which has no lists; or no repetition of a request helps.
    """
    return _find(pattern, field, int(time.monotonic() / LIST_SECONDS))


def list_remote_folder(url: str, field: str) -> Sequence[RemoteFile]:
    """The files of a folder in a bucket and of all folders in it, as `find_remote_files` finds them.

    Raises:
      UserError: there are none; the folder is a web server's, which has no lists; or no repetition of a request helps.
    """
    root, key = split_url(url)
    if root.startswith("http"):
        hint = "a web server has no lists of its files: pack them into a tar file, whose URL is enough"
        raise UserError(field, "a folder on a disk or in a bucket", url, hint=hint)
    return find_remote_files("/".join([root, *filter(None, [glob.escape(key)]), "**", "*"]), field)


@functools.lru_cache(maxsize=256)
def _find(pattern: str, field: str, period: int) -> Sequence[RemoteFile]:
    root, key = split_url(pattern)
    if root.startswith("http") and ("?" in pattern or glob.has_magic(pattern)):
        hint = "a web server has no lists of its files; several are named as JSONLines((URL, URL))"
        raise UserError(field, "the URL of one file, without * ? [", pattern, hint=hint)
    store = open_store(root, os.getpid())
    if glob.has_magic(key):
        parts = key.split("/")
        depth = next(number for number, part in enumerate(parts) if glob.has_magic(part))
        list_files = store.list_folder if depth == len(parts) - 1 and parts[-1] != "**" else store.list_tree
        metas = list_files("/".join(parts[:depth]))
        files = [_state(f"{root}/{meta['path']}", meta) for meta in metas if matches(meta["path"].split("/"), parts)]
    else:
        meta = store.head(key)
        files = [] if meta is None else [_state(pattern, meta)]
    if not files:
        raise UserError(field, "a file, or a pattern of files", pattern, hint="there is none, or no such bucket")
    return files


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern, of which `**` is any number of folders, as in `glob`."""
    if not pattern:
        return not names
    if pattern[0] == "**" and matches(names, pattern[1:]):
        return True
    if not names or names[0].startswith(".") and not pattern[0].startswith("."):
        return False
    if pattern[0] == "**":
        return matches(names[1:], pattern)
    return fnmatch.fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])


def _state(path: str, meta: Any) -> RemoteFile:
    tag = (meta["e_tag"] or "").strip('"')  # the lists of some servers lack the quotes
    return RemoteFile(path, meta["size"], tag or meta["last_modified"].isoformat())
