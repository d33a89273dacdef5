"""All pictures of the examples of audio, with their sound."""

from collections.abc import Iterator, Sequence

import numpy as np

from txjax.report.inspection import audio_figures, frame_figures
from txjax.report.inspection.audio_views import AudioView
from txjax.report.inspection.findings import SHOWN, Findings, Inspection
from txjax.report.inspection.image_figures import patches, rolled_out
from txjax.report.inspection.style import short
from txjax.report.picture import Picture

SECTION = "Audio"


def audio_pictures(findings: Findings, views: Sequence[AudioView]) -> Iterator[Picture]:
    """All pictures of the first examples. `views`: of each example; none without audio."""
    for number, (inspection, view) in enumerate(zip(findings.inspections[:SHOWN], views, strict=False)):
        title = inspection.example.title
        picture = audio_figures.spectrogram_picture(title, view)
        yield Picture(f"spectrogram_{number}", SECTION, _caption(view), picture, view.recording)
        if view.masked is not None:
            caption = "The masks that the last update drew for an example of this number."
            yield Picture(f"masks_{number}", SECTION, caption, audio_figures.masks_picture(title, view))
        maps, path = _maps(findings, inspection)
        if maps and (area := inspection.example.area) is not None:
            caption = (
                f"Maps over patches, from the smallest to the largest value; attention is {path}, the mean over heads."
            )
            yield Picture(f"maps_{number}", SECTION, caption, audio_figures.maps_picture(title, view, maps, area))
        for path, chosen in findings.chosen.items():
            written = inspection.attentions[path].queries.name == "tokens"
            if not inspection.attentions[path].over_time or (written and not inspection.example.written()[1]):
                continue
            name = f"attention_{number}_{short(path).replace('/', '_')}"
            rows = "a row is a token that is written" if written else "a row is the time of a query"
            caption = f"The colour is by the square root of the weight; {rows}."
            args = inspection, view, path, chosen
            yield Picture(f"{name}_mean", "Attention", caption, frame_figures.mean_over_time(*args))
            yield Picture(name, "Attention", "", frame_figures.heads_over_time(*args))


def _caption(view: AudioView) -> str:
    paths = "; above it the symbols of CTC and their frames, blanks left out." if view.paths else "."
    return f"The features that the model reads, {view.seconds:.2f} s{paths}"


def _maps(findings: Findings, inspection: Inspection) -> tuple[dict[str, np.ndarray], str]:
    """The maps over a grid of patches by name, and the path of their attention."""
    maps: dict[str, np.ndarray] = {}
    paths = [path for path in findings.chosen if inspection.attentions[path].keys.grid is not None]
    for path in paths[:1]:
        grid = inspection.attentions[path].keys.grid
        kept = inspection.kept[path]
        assert grid is not None
        maps[f"layer {findings.chosen[path][0][-1]}"] = patches(np.asarray(kept.weights)[-1, 0].mean(0), grid)
        if kept.rollout is not None:
            maps["rollout"] = rolled_out(inspection, path)
    if inspection.activation is not None and findings.method is not None:
        maps[findings.method.split()[0]] = np.asarray(inspection.activation.maps[0])
    return maps, paths[0] if paths else ""
