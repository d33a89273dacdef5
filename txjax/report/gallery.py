"""Pictures and text samples that runs wrote, for the report: the latest large, earlier ones in a row."""

import dataclasses
import os.path
from collections.abc import Callable, Sequence
from pathlib import Path

from txjax.report.picture import Picture, limit_sound
from txjax.report.runs import Run

SHOWN = 6  # number of earlier steps shown, evenly spaced
EXAMPLES = ("overview", "spectrogram_*", "masks_*", "maps_*")  # the pictures of an inspection that the report has


@dataclasses.dataclass(frozen=True)
class Output:
    """A file that a run wrote at a step: bytes of a PNG, or a text."""

    step: int
    content: bytes | str


@dataclasses.dataclass(frozen=True)
class Card:
    """The files of one evaluation of one run.

    Attributes:
      title: the card's heading.
      name: of the evaluation.
      latest: the last file.
      earlier: the others, by increasing step.
    """

    title: str
    name: str
    latest: Output
    earlier: list[Output]


@dataclasses.dataclass(frozen=True)
class InspectionCard:
    """What `txjax inspect` drew of one run.

    Attributes:
      title: the card's heading.
      step: of the parameters.
      page: the address of the page with all pictures.
      pictures: of whole examples, with their sound up to a limit.
    """

    title: str
    step: int
    page: str
    pictures: list[Picture]


def gallery(runs: Sequence[Run]) -> dict[str, list[Card]]:
    """The sections "Pictures", "Tables" and "Samples" of all runs; empty sections are dropped."""
    sections = {"Pictures": _cards(runs, "pictures", Path.read_bytes)}
    sections |= {kind.capitalize(): _cards(runs, kind, _text) for kind in ("tables", "samples")}
    return {title: cards for title, cards in sections.items() if cards}


def inspections(runs: Sequence[Run], folder: Path) -> list[InspectionCard]:
    """The last inspection of each run that has one. `folder`: of the page, from which addresses are relative."""
    cards = []
    for run in runs:
        inspected = run.inspection()
        if inspected is None:
            continue
        step, pictures_folder = inspected
        files = [file for name in EXAMPLES for file in sorted(pictures_folder.glob(f"{name}.png"))]
        pictures, _ = limit_sound([_example(file) for file in files])
        page = os.path.relpath(pictures_folder / "index.html", folder.resolve())
        cards.append(InspectionCard(run.name if len(runs) > 1 else "Examples", step, page, pictures))
    return cards


def _example(file: Path) -> Picture:
    recording = file.with_suffix(".wav")
    return Picture(file.stem, "", "", file.read_bytes(), recording.read_bytes() if recording.exists() else None)


def _cards(runs: Sequence[Run], kind: str, read: Callable[[Path], bytes | str]) -> list[Card]:
    cards = []
    for run in runs:
        for name, files in run.outputs(kind).items():
            *earlier, latest = files
            outputs = [Output(step, read(files[step])) for step in (*_spread_steps(earlier), latest)]
            cards.append(Card(f"{run.name} {name}" if len(runs) > 1 else name, name, outputs[-1], outputs[:-1]))
    return cards


def _text(path: Path) -> str:
    return path.read_text(errors="replace", encoding="utf-8")


def _spread_steps(steps: Sequence[int]) -> list[int]:
    """At most SHOWN steps, evenly spaced, including the first and the last."""
    if len(steps) <= SHOWN:
        return list(steps)
    return [steps[i * (len(steps) - 1) // (SHOWN - 1)] for i in range(SHOWN)]
