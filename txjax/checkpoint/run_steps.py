"""A step of another run, by a text in a config or a flag: it is verified, and named by its digest."""

from pathlib import Path
from typing import Any, NamedTuple

from txjax.checkpoint.origins import verify
from txjax.checkpoint.run_folders import read_checkpoints
from txjax.checkpoint.steps import is_step
from txjax.checkpoint.store import Store
from txjax.distributed import on_primary
from txjax.errors import UserError
from txjax.io import digest


class RunStep(NamedTuple):
    """A step of a run.

    Attributes:
      digest: of the step's checkpoint.
    """

    store: Store
    step: int
    digest: str

    @property
    def workdir(self) -> Path:
        """The workdir of the run."""
        return self.store.folder.parent

    @property
    def name(self) -> str:
        """Names the step in messages."""
        return f"{self.workdir} at step {self.step}"

    @property
    def facts(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return {"run": str(self.workdir), "step": self.step, "digest": self.digest}


def open_step(field: str, text: str) -> RunStep:
    """The step that a text names, "WORKDIR" (the newest good one), "WORKDIR@best" or "WORKDIR@1500", verified with all
    that it has from other runs.

    Args:
      field: the field or flag that has the text, for messages.

    Raises:
      UserError: no such run or step, or damaged files.
    """
    workdir, which = _parse(field, text)

    def chosen() -> int:
        step = store.choose(which)
        verify(store.folder.parent, store.record(step))
        return step

    try:
        store = Store(workdir, read_checkpoints(workdir))
        step = on_primary("the step of another run", chosen)
    except UserError as error:
        flag = error.field if error.field.startswith("--") else ""  # of the commands that read a workdir
        raise error.with_path(field, flag) from None
    return RunStep(store, step, digest.of_all(store.path(step)) or "")


def _parse(field: str, text: str) -> tuple[Path, str]:
    """WORKDIR, WORKDIR@last, WORKDIR@best or WORKDIR@STEP; a folder's own name may have an @ in it."""
    workdir, at, which = text.rpartition("@")
    if not at or Path(text).is_dir():
        return Path(text), "last"
    if which not in ("last", "best") and not is_step(which):
        raise UserError(field, "WORKDIR, WORKDIR@last, WORKDIR@best or WORKDIR@STEP", text)
    return Path(workdir), which
