"""TFDS data sets as indexed records: finding, preparing and reading them without TensorFlow.

TFDS is imported lazily because that takes half a second.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from txjax.data.loading.disk_cache import cache_dir, lock
from txjax.data.tfds import feature_classes
from txjax.data.tfds.prepared_splits import check_split, reason_of
from txjax.errors import MissingResource, RunError, UserError, near_misses
from txjax.terminal_escape import visible

EMBEDDED = ("txjax_python_text", "txjax_digits", "txjax_canvases", "txjax_skills", "txjax_shakespeare")
NAME = re.compile(r"[a-z][a-z0-9_]*(/\w[\w+.-]*)?(:[\d.*]+)?")
NO_NAMESPACES = "a namespace (huggingface:x) would run code or use the network; prepare the set in data_dir"


class CorruptData(RunError):
    """A record that cannot be read."""


class ChangedData(CorruptData):
    """A record whose file has changed since it was indexed: no data set may leave it out as if it were broken."""


@functools.cache
def _tfds() -> Any:
    """The TFDS module, with only errors logged: it warns of every missing folder, and of OpenCV."""
    import tensorflow_datasets

    quiet = lambda record: record.levelno >= logging.ERROR or "tensorflow_datasets" not in record.pathname  # noqa: E731
    logging.getLogger("absl").addFilter(quiet)
    return tensorflow_datasets


def folder(name: str, data_dir: str | None) -> Path:
    """The folder that contains a data set's own folder. Raises UserError where no file system could have one."""
    if data_dir is None and _base(name) in EMBEDDED:
        return cache_dir() / "tfds"
    root = os.path.expanduser(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")
    try:
        os.stat(root)
    except OSError:  # none yet, say
        pass
    except ValueError as error:
        raise UserError("data.data_dir", "a path", root) from error
    return Path(root)


def require_name(name: str | None) -> str:
    """The name of a data set, as given. Raises UserError if there is none, since it has no default."""
    if not name:
        raise UserError("data.name", "the name of a TFDS data set", name)
    return name


def find(name: str, data_dir: str | None) -> Any:
    """The TFDS builder of a data set, prepared or not; from the prepared folder if its code isn't installed.

    Raises:
      UserError: the name is invalid, there is neither code nor a folder of that name, or the folder names classes
        that aren't TFDS's own.
    """
    if not NAME.fullmatch(name):
        expected = "a TFDS data set as NAME, NAME/CONFIG or NAME/CONFIG:VERSION"
        is_path = name.startswith((".", "/", "~")) or "*" in name or Path(name).suffix or os.path.exists(name)
        raise UserError("data.name", expected, name, hint=_file_hint(name) if is_path else NO_NAMESPACES)
    tfds = _tfds()
    root = folder(name, data_dir)
    if _base(name) in EMBEDDED:  # importing a builder registers it
        module = importlib.import_module(f"txjax.data.tfds.builders.{_base(name)}.{_base(name)}_dataset_builder")
        if (config := re.match("[^/:]*/([^:]*)", name)) and hasattr(module.Builder, "add_config"):
            module.Builder.add_config(config[1], data_dir)
    for path in _files(root / _base(name)):
        feature_classes.check_file(path)
    try:
        with feature_classes.only_tfds_classes(root / _base(name)):
            return tfds.builder(name, data_dir=root)
    except UserError:
        raise
    except Exception as error:  # of many types; the one for an unknown name lists all of TFDS's data sets
        known = {*EMBEDDED, *prepared_sets(root), *tfds.list_builders(with_community_datasets=False)} - {name}
        near = near_misses(name, sorted(known))
        hint = _file_hint(name) if os.path.exists(name) else _how_to_make(name, root)
        raise MissingResource("data.name", "a TFDS data set", name, near, hint) from error


def _file_hint(name: str) -> str:
    return f"data.source={name} reads files"


def _files(prepared: Path) -> list[Path]:
    """The files that can name classes, of all prepared versions, in VERSION and CONFIG/VERSION."""
    patterns = [depth + name for depth in ("*/", "*/*/") for name in feature_classes.FILES]
    paths = [path for pattern in patterns for path in prepared.glob(pattern)]
    return [path for path in paths if ".incomplete" not in path.parent.name]  # another process may be writing there


def check(name: str | None, split: str, data_dir: str | None) -> Any:
    """The features of a data set, which must be prepared (or embedded) and have this split. Reads only metadata.

    Raises:
      UserError: the data set or its split is missing; the message has the command that prepares it.
    """
    name = require_name(name)
    builder = find(name, data_dir)
    if not builder.is_prepared():
        if builder.name not in EMBEDDED:
            raise _unprepared_error(builder, name, folder(name, data_dir))
        builder.check()
    check_split(builder, split)
    return builder.info.features


def features(name: str | None, data_dir: str | None) -> Any:
    """The features of a data set, prepared or not. Raises UserError if neither its code nor a folder of it is there."""
    return find(require_name(name), data_dir).info.features


def check_feature(field: str, name: str, features: Any, kinds: tuple[str, ...]) -> Any:
    """The feature `name`, which must be of one of these TFDS types. `field` is the config field that names it."""
    fitting = [key for key, feature in features.items() if type(feature).__name__ in kinds]
    if name not in fitting:
        expected = f"a feature of kind {' or '.join(kinds)} (the set has {', '.join(fitting) or 'none'})"
        raise UserError(field, expected, name, near_misses(name, fitting))
    return features[name]


def prepared_sets(root: Path) -> list[str]:
    """The prepared data sets under `root`, as `NAME:VERSION` or `NAME/CONFIG:VERSION`."""
    infos = [*root.glob("*/*/dataset_info.json"), *root.glob("*/*/*/dataset_info.json")]
    return sorted(f"{info.parent.parent.relative_to(root).as_posix()}:{info.parent.name}" for info in infos)


class Records:
    """The records of a split, by index. Several threads may read.

    Attributes:
      name: the data set's full name, config and version included.
      fingerprint: hash of the name and of every shard's size and first and last 64 KiB. That is cheap for terabytes
        and distinguishes data well; array_record itself has a checksum of every record.
    """

    def __init__(
        self,
        name: str | None,
        split: str,
        data_dir: str | None,
        features: Iterable[str],
        encoded: Iterable[str] = (),
    ):
        """
        Args:
          features: the features of a record that are read; others are not decoded.
          encoded: image features, or sequences of images, of which a record has the bytes of the files, too.
        """
        tfds = _tfds()
        builder = _prepare(require_name(name), data_dir)
        check_split(builder, split)
        self.name = builder.info.full_name
        read = {feature: builder.info.features[feature] for feature in features}
        text = tfds.features.Text()  # bytes, as images are stored
        listed = {feature for feature in encoded if isinstance(builder.info.features[feature], tfds.features.Sequence)}
        read |= {feature: tfds.features.Sequence(text) if feature in listed else text for feature in encoded}
        self._features = tfds.features.FeaturesDict(read)
        self._records = builder.as_data_source(split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES)
        self._shards = builder.info.splits[split].file_instructions

    @functools.cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(self.name.encode(), digest_size=16)
        for shard in self._shards:
            path = Path(shard.filename)
            digest.update(repr((path.name, shard.skip, shard.take, path.stat().st_size)).encode())
            with path.open("rb") as file:
                digest.update(file.read(1 << 16))
                file.seek(max(0, path.stat().st_size - (1 << 16)))
                digest.update(file.read(1 << 16))
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Record `index`, decoded. Raises CorruptData, which names the file."""
        try:
            return self._features.deserialize_example_np(self._records[index])
        except Exception as error:
            raise self._corrupt(index, error) from error

    def _corrupt(self, index: int, error: Exception) -> CorruptData:
        return CorruptData(f"{self.place(index)} cannot be read: {reason_of(error)}; prepare {self.name} again")

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Records `start` to `stop` - 1, which array_record reads in parallel."""
        indices = list(range(start, stop))
        try:
            return [self._features.deserialize_example_np(record) for record in self._records.__getitems__(indices)]
        except Exception:  # one by one, to name the damaged record
            return [self[index] for index in indices]

    def stored(self, index: int) -> Any:
        """Record `index` as an undecoded `tf.train.Example`. Raises CorruptData, which names the file."""
        from tensorflow_datasets.proto import tf_example_pb2

        try:
            return tf_example_pb2.Example.FromString(self._records[index])
        except Exception as error:
            raise self._corrupt(index, error) from error

    def place(self, index: int) -> str:
        """The file of record `index` and its number in it, for messages."""
        for shard in self._shards:
            if index < shard.take:
                return f"{shard.filename}: record {shard.skip + index}"
            index -= shard.take
        raise IndexError(index)


def _prepare(name: str, data_dir: str | None) -> Any:
    """The builder of a prepared data set; prepares it first if possible."""
    tfds = _tfds()
    builder = find(name, data_dir)
    if builder.is_prepared():
        return builder
    root = folder(name, data_dir)
    with lock(root / f".{builder.name}.lock"):
        builder = find(name, data_dir)
        if builder.is_prepared():
            return builder
        if builder.name in EMBEDDED:
            builder.check()
            for leftover in builder.data_path.parent.glob("*.incomplete*"):  # of a process that was killed
                shutil.rmtree(leftover)
        tfds.display_progress_bar(sys.stderr.isatty())
        if sys.stderr.isatty():
            print(f"preparing the data set {visible(builder.info.full_name)}, once", file=sys.stderr, flush=True)
        try:
            # TFDS prints sizes and paths.
            with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
                config = tfds.download.DownloadConfig(try_download_gcs=False)
                builder.download_and_prepare(file_format="array_record", download_config=config)
        except Exception as error:
            raise _unprepared_error(builder, name, root, reason_of(error)) from error
    return find(name, data_dir)


def _unprepared_error(builder: Any, name: str, root: Path, reason: str = "") -> MissingResource:
    others = [other for other in prepared_sets(root) if _base(other) == _base(name) and other != name]
    hint = f"{reason}; {_how_to_make(name, root)}" if reason else _how_to_make(name, root)
    return MissingResource("data.name", f"{builder.info.full_name} to be prepared", name, others, hint)


def _how_to_make(name: str, root: Path) -> str:
    return (
        f"looked in {root}; to make it, on a machine with a network: pip install tensorflow-cpu; "
        f"tfds build {name} --data_dir={root} --file_format=array_record"
    )


def _base(name: str) -> str:
    return re.split("[/:]", name)[0]
