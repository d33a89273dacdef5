"""All pictures of an inspection, by file name, and the page that shows them."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from txjax.nn import Grid
from txjax.report.inspection import image_figures, text_figures
from txjax.report.inspection.depth_figures import distance_picture
from txjax.report.inspection.findings import SHOWN, Findings, Inspection
from txjax.report.inspection.first_layer import cosine_similarity, first_filters, position_vectors, principal_filters
from txjax.report.inspection.style import short
from txjax.report.inspection.weight_figures import filters_picture, similarity_picture
from txjax.report.inspection.word_maps import word_maps, word_maps_picture
from txjax.report.picture import Picture, limit_sound
from txjax.report.render import render
from txjax.terminal_escape import visible
from txjax.types import PyTree


def inspect_page(
    title: str, subtitle: str, pictures: Sequence[Picture], notes: Sequence[str], tokens: str | None
) -> str:
    """The page; pictures are inside it, and their sound up to a limit.

    Args:
      tokens: the file of the page of tokens. If None, there is none.
    """
    sections: dict[str, list[Picture]] = {}
    limited, more = limit_sound(pictures)
    for picture in limited:
        sections.setdefault(picture.section, []).append(picture)
    return render(
        "inspect.html", visible(title), visible(subtitle), sections=sections, notes=[*notes, *more], tokens=tokens
    )


def pictures_of(findings: Findings, model: Any, params: PyTree, names: Sequence[str] | None) -> list[Picture]:
    """All pictures. `names`: of the classes."""
    parts = _overviews(findings, names), _maps(findings), _distances(findings), _weights(findings, model, params)
    return [picture for part in parts for picture in part]


def _overviews(findings: Findings, names: Sequence[str] | None) -> Iterator[Picture]:
    inspections = [inspection for inspection in findings.inspections[:SHOWN] if inspection.example.image is not None]
    if not inspections:
        return
    paths = [path for path, kept in inspections[0].kept.items() if kept.rollout is not None]
    path = next((path for path in paths if inspections[0].attentions[path].keys.grid is not None), None)
    if path is None and findings.method is None:
        return
    parts = [
        "Attention rollout (Abnar and Zuidema 2020) to the class token, or to the mean of all patches." if path else "",
        _METHODS[findings.method.split()[0]] if findings.method else "",
    ]
    caption = " ".join(part for part in parts if part)
    if findings.method and "before" in findings.method:
        caption += " The features are the last layer's input."
    caption += " Colours are from the map's smallest to its largest value."
    yield Picture("overview", "Examples", caption, image_figures.overview(inspections, path, findings.method, names))


_METHODS = {
    "CAM": "Class activation map of the predicted class (Zhou et al. 2016): the class's logit at each place.",
    "Grad-CAM": "Grad-CAM of the predicted class (Selvaraju et al. 2017).",
}


def _maps(findings: Findings) -> Iterator[Picture]:
    for number, inspection in enumerate(findings.inspections[:SHOWN]):
        for path in inspection.kept:
            attention = inspection.attentions[path]
            name = f"attention_{number}_{_file(path)}"
            if (words := word_maps(inspection, path)) is not None:
                caption = f"{words.meaning}, in the mean over the heads: from 0 to the layer's largest weight."
                picture = word_maps_picture(inspection, path, findings.chosen[path], words)
                yield Picture(f"{name}_{words.kind}", words.section, caption, picture)
            if attention.between_labelled:
                rows = inspection.kept[path].weights.shape[1]
                for row in range(rows):
                    more = f"_{row}" if rows > 1 else ""
                    args = (inspection, path, findings.chosen[path], row)
                    caption = f"The first {text_figures.TOKENS} tokens; the colour is by the square root of the weight."
                    caption += "" if path == attention.path else " A row is 1 with what is read of the other inputs."
                    yield Picture(f"{name}{more}_mean", "Attention", caption, text_figures.mean_picture(*args))
                    yield Picture(f"{name}{more}", "Attention", "", text_figures.heads_picture(*args))
            elif attention.keys.grid is not None and inspection.example.image is not None:
                picture = image_figures.attention_picture(inspection, path, findings.chosen[path], findings.query)
                caption = f"{path}: from 0 to the map's largest weight."
                caption += (
                    " Patches outside the query's window have none." if attention.windows and findings.query else ""
                )
                yield Picture(name, "Attention", caption, picture)


def _distances(findings: Findings) -> Iterator[Picture]:
    by_name: dict[str, dict[str, Any]] = {}
    for path, rows in findings.distances().items():
        by_name.setdefault(findings.inspections[0].attentions[path].queries.name, {})[path] = rows
    for name, distances in by_name.items():
        unit = "tokens"
        image = findings.inspections[0].example.image
        if name == "image" and image is not None:
            unit = "pixels"
            grids = {path: findings.inspections[0].attentions[path].queries.grid for path in distances}
            distances = {path: rows * image.shape[1] / _columns(grids[path]) for path, rows in distances.items()}
        elif name == "features" and findings.inspections[0].attentions[next(iter(distances))].keys.grid:
            unit = "distances of neighbouring patches"
        caption = f"How far heads look, over {len(findings.inspections)} examples (Dosovitskiy et al. 2021, figure 7)."
        more = "" if len(by_name) == 1 else f"_{name}"
        yield Picture(f"distance{more}", "Attention distance", caption, distance_picture(distances, unit))


def _columns(grid: Grid | None) -> int:
    assert grid is not None
    return grid.columns


def _weights(findings: Findings, model: Any, params: PyTree) -> Iterator[Picture]:
    inspection = findings.inspections[0]
    inputs = inspection.example.inputs
    lengths, grids = _lengths(inspection)
    name = next((name for name in ("image", "features") if name in lengths), "tokens")
    length = lengths.get(name, inputs[name].shape[1] if name in inputs and name == "tokens" else 0)
    if length:
        vectors = position_vectors(model, params, length, grids.get(name), lengths)
        for path, table in vectors.items():
            cosines = np.asarray(jax.device_get(cosine_similarity(table)))
            grid = grids.get(path.split("/")[0], grids.get(name))
            grid = grid if grid is not None and grid.prefix + grid.rows * grid.columns == len(cosines) else None
            caption = (
                "Cosines between the vectors that are added for positions (Dosovitskiy et al. 2021, figure 7), from -1 "
            )
            caption += "(blue) to 1 (red)." + (" Each panel is one patch with all patches." if grid else "")
            picture = similarity_picture(cosines, grid, path)
            yield Picture(_file(path), "Position embeddings", caption, picture)
    channels = inputs["image"].shape[-1] if "image" in inputs else 1 if "features" in inputs else 0
    filters = first_filters(params, channels) if channels else None
    if filters is not None:
        path, kernels = filters
        yield _filters(path, kernels)


def _filters(path: str, kernels: Any) -> Picture:
    """The kernels of a convolution, or principal components of a linear projection with many features."""
    if min(kernels.shape[1:3]) > 1 and "stem" not in path:
        components, shares = (np.asarray(x) for x in principal_filters(kernels))
        names = [f"{share:.1%}" for share in shares]
        caption = (
            f"Principal components of {path} (Dosovitskiy et al. 2021, figure 7), and their share of the variance."
        )
        picture = filters_picture(components, "Principal components of the first projection", names)
        return Picture("filters", "First projection", caption, picture)
    names = [str(i) for i in range(len(kernels))]
    picture = filters_picture(np.asarray(kernels), "Filters of the first projection", names)
    return Picture("filters", "First projection", f"Kernels of {path}, each scaled to its own range.", picture)


def _lengths(inspection: Inspection) -> tuple[dict[str, int], dict[str, Grid]]:
    """Tokens and grids by name of the input, and by the first name of an attention's path (of a stage, an encoder)."""
    lengths: dict[str, int] = {}
    grids: dict[str, Grid] = {}
    for path, attention in inspection.attentions.items():
        for key in (attention.queries.name, path.split("/")[0]):
            lengths.setdefault(key, attention.queries.length)
            if attention.queries.grid is not None:
                grids.setdefault(key, attention.queries.grid)
    return lengths, grids


def _file(path: str) -> str:
    return short(path).replace("/", "_")
