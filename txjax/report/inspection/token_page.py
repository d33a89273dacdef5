"""A page of a text's attention without a server: tokens in two columns for each head, side by side."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from txjax.report.inspection.findings import SHOWN, Findings, Seen
from txjax.report.inspection.style import short
from txjax.report.render import render
from txjax.terminal_escape import visible

TOKENS = 96  # the first tokens of a text that the page shows


def token_page(found: Findings, title: str, subtitle: str) -> str:
    """The page, in one file; every token is escaped.

    Weights are stored as bytes, the square root of a weight times 255, so that small ones keep a difference.
    """
    data = [part for seen in found.seen[:SHOWN] for part in _examples(seen, found)]
    return render("tokens.html", visible(title), visible(subtitle), examples=data)


def text_paths(seen: Seen) -> list[str]:
    """The paths of the attentions between texts."""
    return [path for path in seen.kept if seen.attentions[path].between_texts]


def _examples(seen: Seen, found: Findings) -> list[dict[str, Any]]:
    """An example's rows: one, or one for each answer of a multiple choice."""
    paths = text_paths(seen)
    rows = seen.kept[paths[0]].weights.shape[1] if paths else 0
    return [
        {
            "title": seen.example.title + (f", choice {row}" if rows > 1 else ""),
            "maps": [_map(seen, path, found.chosen[path], row) for path in paths],
        }
        for row in range(rows)
    ]


def _map(seen: Seen, path: str, chosen: tuple[Sequence[int], Sequence[int]], row: int) -> dict[str, Any]:
    own, example = seen.attentions[path], seen.example
    names = own.queries.name, own.keys.name
    queries, keys = (example.real(name, row, TOKENS) for name in names)
    weights = np.asarray(seen.kept[path].weights)[:, row][:, :, queries][..., keys]
    return {
        "name": short(path),
        "layers": list(chosen[0]),
        "heads": list(chosen[1]),
        "queries": example.words(names[0], row, TOKENS),
        "keys": example.words(names[1], row, TOKENS),
        "weights": packed(weights),
    }


def packed(weights: Float[np.ndarray, "..."]) -> str:
    """Weights from 0 to 1 as base64 of a byte each."""
    return base64.b64encode(np.round(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8).tobytes()).decode()
