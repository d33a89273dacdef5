"""A page of a text's attention without a server: tokens in two columns for each head, side by side."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from txjax.report.inspection.findings import SHOWN, Findings, Inspection
from txjax.report.inspection.labels import label_tokens
from txjax.report.inspection.style import short
from txjax.report.render import render
from txjax.terminal_escape import visible

TOKENS = 96  # the first tokens of a text that the page shows


def token_page(findings: Findings, title: str, subtitle: str) -> str:
    """The page, in one file; every token is escaped.

    Weights are stored as bytes, the square root of a weight times 255, so that small ones keep a difference.
    """
    data = [part for inspection in findings.inspections[:SHOWN] for part in _examples(inspection, findings)]
    return render("tokens.html", visible(title), visible(subtitle), examples=data)


def text_paths(inspection: Inspection) -> list[str]:
    """The paths of the attentions between texts."""
    return [path for path in inspection.kept if inspection.attentions[path].between_texts]


def _examples(inspection: Inspection, findings: Findings) -> list[dict[str, Any]]:
    """An example's rows: one, or one for each answer of a multiple choice."""
    paths = text_paths(inspection)
    rows = inspection.kept[paths[0]].weights.shape[1] if paths else 0
    return [
        {
            "title": inspection.example.title + (f", choice {row}" if rows > 1 else ""),
            "maps": [_map(inspection, path, findings.chosen[path], row) for path in paths],
        }
        for row in range(rows)
    ]


def _map(inspection: Inspection, path: str, chosen: tuple[Sequence[int], Sequence[int]], row: int) -> dict[str, Any]:
    attention = inspection.attentions[path]
    (queries, rows), (keys, columns) = (
        label_tokens(inspection.example, sequence, TOKENS, row) for sequence in (attention.queries, attention.keys)
    )
    weights = np.asarray(inspection.kept[path].weights)[:, row][:, :, queries][..., keys]
    return {
        "name": short(path),
        "layers": list(chosen[0]),
        "heads": list(chosen[1]),
        "queries": rows,
        "keys": columns,
        "weights": pack_weights(weights),
    }


def pack_weights(weights: Float[np.ndarray, "..."]) -> str:
    """Weights from 0 to 1 as base64 of a byte each."""
    return base64.b64encode(np.round(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8).tobytes()).decode()
