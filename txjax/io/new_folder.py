"""The one way in which commands create the folder of a result: complete at once, or not at all."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from txjax.errors import UserError
from txjax.io.files import flush, flush_tree
from txjax.io.temporary import remove_leftovers, temporary_folder


@contextlib.contextmanager
def new_folder(field: str, to: Path) -> Iterator[Path]:
    """Yields an empty hidden folder beside `to`, which is flushed and renamed to `to` at the end of the block.

    If the block raises, or the process is killed, there is no `to`; the next call removes what was left. Of several
    processes with one `to`, the first to finish has it.

    Args:
      field: the flag that names the folder, for messages.

    Raises:
      UserError: `to` is not new, before the block or at its end, or no folder can be created there.
    """
    check_new(field, to)
    to = to.resolve()
    with contextlib.ExitStack() as stack:
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(temporary_folder(to))
        except OSError as error:
            hint = error.strerror or str(error)
            raise UserError(field, "a folder that can be created", str(to), hint=hint) from None
        yield folder
        flush_tree(folder)
        try:
            os.rename(folder, to)  # an empty folder is replaced, no other
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                check_new(field, to)
            raise
    flush(to.parent)


def check_new(field: str, to: Path) -> None:
    """Raises UserError unless there is nothing at a path, or an empty folder. Removes what a killed command left."""
    remove_leftovers(to.resolve())
    if to.is_dir():
        entries = sorted(os.listdir(to))
        if os.path.ismount(to):
            hint = "it is renamed when it is complete; take a folder in this one"
            raise UserError(field, "a folder that is no mount point", str(to), hint=hint)
        if "config.json" in entries:
            raise UserError(field, "a new folder", str(to), hint="a run or a model is in it")
        if entries:
            raise UserError(field, "a new folder", str(to), hint=f"{entries[0]} is in it")
    elif os.path.lexists(to.resolve()):
        raise UserError(field, "a new folder", str(to), hint="it is a file")
