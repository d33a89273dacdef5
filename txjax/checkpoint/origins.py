"""Frozen parameters that are not saved again: they lie in the checkpoints of the runs that they came from unchanged.

The record of a step names the run, the step and its digest for each of them. Reading verifies all of these; nothing is
read from a step with another digest.
"""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from flax import traverse_util

from txjax.checkpoint.arrays import read_arrays
from txjax.checkpoint.steps import FOLDER, unreadable
from txjax.distributed import on_primary
from txjax.errors import RunError, UserError
from txjax.io import digest
from txjax.types import PyTree, flat_paths

log = logging.getLogger("txjax")
_FROZEN = "weights/frozen/"


@dataclasses.dataclass(frozen=True)
class Origin:
    """A step of another run, and arrays that a run has from it unchanged.

    Attributes:
      run: the absolute path of its workdir.
      relative: the path from the workdir of the run that reads it, for folders that are moved together.
      step, digest: of its checkpoint.
      arrays: {path here: path there}, with the part, such as `weights/frozen/embed/embedding`.
    """

    run: str
    relative: str
    step: int
    digest: str
    arrays: dict[str, str]

    def folder(self, workdir: Path) -> Path:
        """The folder of its step, with the digest that it should have; its files are not read.

        Raises:
          UserError: there is none.
        """
        problem = f"no folder {self.run}"
        for run in (Path(self.run), (workdir / self.relative).resolve()):
            folder = run / FOLDER / str(self.step)
            recorded_digest = digest.of_all(folder)
            if recorded_digest == self.digest:
                return folder
            if run.is_dir():
                problem = "another checkpoint" if recorded_digest else "that step was removed"
        raise self._missing_error(problem)

    def is_there(self, workdir: Path) -> bool:
        """Whether there is such a folder; if not, warns."""
        try:
            return self.folder(workdir) is not None
        except (UserError, RunError) as error:
            log.warning("frozen parameters are saved too: %s", error)
            return False

    def verify_folder(self, workdir: Path) -> Path:
        """The same folder, all of whose files are as they were. Raises UserError if one is not."""
        folder = self.folder(workdir)
        if faults := digest.faults(folder):
            raise self._missing_error(f"damaged files: {'; '.join(faults)}")
        return folder

    def _missing_error(self, problem: str) -> UserError:
        return UserError(
            f"step {self.step} of {self.run}",
            f"the frozen parameters that this run has from it (digest {self.digest})",
            problem,
            hint="checkpoint.frozen='origin' does not save them again: bring that folder back, or a link to it",
        )


def origins_of_record(record: Mapping[str, Any]) -> list[Origin]:
    """The origins in a step's record. Raises RunError if the entry is not one of origins."""
    try:
        return [Origin(**origin) for origin in record.get("origins", ())]
    except TypeError as error:
        raise unreadable(record["step"], error) from error


def verify(workdir: Path, record: Mapping[str, Any]) -> None:
    """Raises UserError if an origin in a step's record is not as it was."""
    for origin in origins_of_record(record):
        origin.verify_folder(workdir)


def unchanged_origins(
    source: Path, record: Mapping[str, Any], digested: str, arrays: Mapping[str, str]
) -> list[Origin]:
    """The origins of arrays of a step: the run itself, or the one where the run has them from.

    Args:
      source: the workdir of the run.
      record: of its step.
      digested: the digest of that step.
      arrays: {path here: path there}.
    """
    before = origins_of_record(record)
    further = {at for origin in before for at in origin.arrays}
    paths_here = {here: at for here, at in arrays.items() if at not in further}
    sources = [Origin(str(source), "", int(record["step"]), digested, paths_here)] if paths_here else []
    for origin in before:
        if theirs := {here: origin.arrays[at] for here, at in arrays.items() if at in origin.arrays}:
            run = origin.folder(source).parents[1]  # the path as it is now
            sources.append(dataclasses.replace(origin, run=str(run), arrays=theirs))
    return sources


def leave_out(parts: dict[str, PyTree], origins: Sequence[Origin], workdir: Path) -> tuple[dict[str, PyTree], Any]:
    """The parts of a state without the arrays of these origins, and the record's entry that says where they are.

    An origin that is gone by now is none: its arrays stay in the parts, with a warning.
    """
    kept = on_primary("the origins of frozen parameters", lambda: [origin.is_there(workdir) for origin in origins])
    origins = [origin for origin, there in zip(origins, kept, strict=True) if there]
    if not origins:
        return parts, {}
    parts_here, _ = _split(parts, {at for origin in origins for at in origin.arrays})
    relative_origins = [
        dataclasses.replace(origin, relative=os.path.relpath(origin.run, workdir)) for origin in origins
    ]
    return parts_here, {"origins": [dataclasses.asdict(origin) for origin in relative_origins]}


def read(step: int, workdir: Path, origins: Sequence[Origin], abstract: dict[str, PyTree]) -> dict[str, PyTree]:
    """The arrays of a step that are in `abstract`, from its own folder and from its origins.

    Raises:
      UserError: an origin is not as it was. RunError: a file is unreadable.
    """
    abstract_here, elsewhere = _split(abstract, {at for origin in origins for at in origin.arrays})
    loaded: dict[str, Any] = {}
    for origin in origins:
        wanted = {there: elsewhere[here] for here, there in origin.arrays.items() if here in elsewhere}
        if not wanted:
            continue
        name = f"the frozen parameters from {origin.run}"
        folder = Path(on_primary(name, lambda origin=origin: str(origin.verify_folder(workdir))))  # type: ignore[misc]
        arrays = flat_paths(read_arrays(origin.step, folder, traverse_util.unflatten_dict(wanted, sep="/")))
        loaded |= {here: arrays[there] for here, there in origin.arrays.items() if here in elsewhere}
    if jax.tree.leaves(abstract_here):
        abstract_here = read_arrays(step, workdir / FOLDER / str(step), abstract_here)
    return _add_frozen(abstract_here, loaded) if loaded else abstract_here


def _split(parts: dict[str, PyTree], elsewhere: set[str]) -> tuple[dict[str, PyTree], dict[str, Any]]:
    """The parts without the frozen arrays at some paths, and these by path."""
    frozen = _frozen(parts)
    taken = {at: x for at, x in frozen.items() if at in elsewhere}
    rest = {at: x for at, x in frozen.items() if at not in elsewhere}
    return (_with_frozen(parts, rest), taken) if taken else (parts, {})


def _add_frozen(parts: dict[str, PyTree], more: dict[str, Any]) -> dict[str, PyTree]:
    return _with_frozen(parts, _frozen(parts) | more)


def _frozen(parts: dict[str, PyTree]) -> dict[str, Any]:
    tree = parts.get("weights", {}).get("frozen", {})
    return {_FROZEN + path: x for path, x in traverse_util.flatten_dict(tree, sep="/").items()}


def _with_frozen(parts: dict[str, PyTree], frozen: dict[str, Any]) -> dict[str, PyTree]:
    tree = traverse_util.unflatten_dict({at.removeprefix(_FROZEN): x for at, x in frozen.items()}, sep="/")
    return {**parts, "weights": {**parts["weights"], "frozen": tree}}
