"""Files of a run's data that changed between two starts: they are named before what is wrong with their rows."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from txjax import tree
from txjax.checks import UserErrors
from txjax.data.file_changes import describe_changes_since, describe_later_changes
from txjax.data.tfds.records import ChangedData, CorruptData
from txjax.errors import RunError, UserError
from txjax.experiment import Experiment
from txjax.train.run.workdir import has_steps, read_config

log = logging.getLogger("txjax")


@contextlib.contextmanager
def name_changed_files(workdir: Path | str) -> Iterator[None]:
    """Errors inside that may follow from the data say which files have changed since the run of a workdir began.

    A row that can't be used any more is no broken row then, which the data could leave out; and classes that came or
    went are no other config.

    Args:
      workdir: its path. Of the URL of one in a bucket nothing is known.

    Raises:
      UserError: in the place of these errors. Where no file has changed, they are as they were.
    """
    try:
        yield
    except (UserError, CorruptData) as error:
        errors = list(getattr(error, "errors", (error,)))
        consequences = [part for part in errors if _may_follow(part)]
        if isinstance(error, ChangedData) or not consequences or not (changes := _describe_changes(Path(workdir))):
            raise
        first = consequences[0]
        reason = UserError(first.field, first.expected, first.got) if isinstance(first, UserError) else first
        hint = f"{reason}; take another --workdir"
        changed = UserError("the data", f"the files as when {workdir} began", changes, hint=hint)
        others = [part for part in errors if part not in consequences]
        raise UserErrors([changed, *others]) if others else changed from error


def warn_of_later_changes(experiment: Experiment, name: str) -> None:
    """Warns of files of an experiment's data that came, went or changed since this process opened them.

    Args:
      name: the prefix of the message where several runs train together.
    """
    try:
        changes = describe_later_changes(experiment)
    except (UserError, RunError) as error:
        changes = str(error)
    if changes:
        consequence = "it read them as they were, and resumes only where their rows are the same"
        log.warning("%sthe data has changed while the run was on: %s; %s", name, changes, consequence)


def _may_follow(error: Exception) -> bool:
    """Whether an error may follow from the data."""
    return not isinstance(error, UserError) or "data" in error.field.split(".") or error.field == "--config"


def _describe_changes(workdir: Path) -> str:
    """What happened to the files of the run of a workdir since it began; empty if that is nothing, or isn't known."""
    with contextlib.suppress(Exception):  # none may hide the error that asked for it
        noted = tree.read_json(workdir / "manifest.json").get("files") if has_steps(workdir) else None
        if isinstance(noted, dict) and noted:
            return describe_changes_since(noted, read_config(workdir))
    return ""
