"""Figures as PNG bytes and as files, and PNG bytes as data URLs."""

import base64
import io
from pathlib import Path

from matplotlib.figure import Figure

from txjax.io.files import replace_bytes

DPI = 160  # of the figures of reports
CSS_DPI = 96  # pixels of a page per inch


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    return _content(figure, "png")


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes a figure as NAME.png and NAME.svg. Returns their paths."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        replace_bytes(path, _content(figure, path.suffix[1:]))
    return paths


def _content(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind)
    return file.getvalue()


def png_address(content: bytes) -> str:
    """A PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(content).decode()


def png_width(content: bytes) -> int:
    """The width of a report's figure on a page, in the page's pixels, so that its letters have the page's size."""
    return round(int.from_bytes(content[16:20], "big") * CSS_DPI / DPI)
