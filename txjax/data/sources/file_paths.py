"""The files that paths, patterns and URLs name."""

import glob
import os
from collections.abc import Sequence

from txjax.data.sources.file_states import FileState, LocalFile
from txjax.data.sources.remote_files import find_remote_files, is_url
from txjax.errors import UserError


def find_files(patterns: str | Sequence[str], field: str = "data.source") -> list[FileState]:
    """The files of one or several paths, patterns or URLs, sorted by path. Hidden ones are left out.

    Raises:
      UserError: there are none, none of a URL, or one is a folder.
    """
    listed = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    files: list[FileState] = [file for url in filter(is_url, listed) for file in find_remote_files(url, field)]
    local = [pattern for pattern in listed if not is_url(pattern)]
    paths = sorted({path for pattern in local for path in glob.glob(os.path.expanduser(pattern), recursive=True)})
    files += [LocalFile.of(path) for path in paths if os.path.isfile(path)]
    if not files:
        hint = f"in {os.getcwd()}" if not paths else f"{paths[0]} is a folder"
        raise UserError(field, "a file, or a pattern of files", " ".join(listed), hint=hint)
    by_path = {file.path: file for file in files}
    return [by_path[path] for path in sorted(by_path)]
