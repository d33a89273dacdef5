"""`txjax_python_text`: the source code of the running Python's standard library."""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from txjax.errors import UserError

# Excluded folders at any depth: tests, third-party packages, and files that are not source code.
EXCLUDED = {"__pycache__", "dist-packages", "idle_test", "site-packages", "test", "tests"}


class Builder(tfds.core.GeneratorBasedBuilder):
    """One record per file. The version is Python's: each version of Python gives its own data set."""

    VERSION = tfds.core.Version("{}.{}.{}".format(*sys.version_info))
    SPLITS = ("train", "validation")

    def check(self) -> None:
        """Raises UserError if this Python has no sources of its standard library."""
        if next(sources(), None) is None:
            raise UserError("data.name", f"Python sources under {library()}", self.name, hint="use another Python")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="The source code of Python's standard library, without its tests; 4% of the files held out.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text(), "path": tfds.features.Text()}),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(split) for split in self.SPLITS}

    def _generate_examples(self, split: str) -> Iterator[tuple[str, dict[str, str]]]:
        root = library()
        for path in sources():
            name = path.relative_to(root).as_posix()
            if split_of(name) != split:
                continue
            try:
                yield name, {"text": path.read_bytes().decode("utf-8"), "path": name}
            except UnicodeDecodeError:
                continue  # a few files in other encodings


def library() -> Path:
    """The folder of the standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def sources() -> Iterator[Path]:
    """All source files of the standard library, except tests, in a fixed order."""
    for folder, folders, files in os.walk(library()):
        folders[:] = sorted(set(folders) - EXCLUDED)
        paths = [Path(folder, file) for file in sorted(files) if file.endswith(".py")]
        yield from (path for path in paths if path.is_file())  # Debian has dangling links


def split_of(name: str) -> str:
    """The split of a file, by a hash of its path: 4% of the files are `validation`."""
    return "validation" if int(hashlib.sha256(name.encode()).hexdigest(), 16) % 25 == 0 else "train"
