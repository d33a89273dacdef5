"""Figures as PNG bytes, and PNG bytes as data URLs."""

import base64
import io

from matplotlib.figure import Figure

DPI = 160  # of the figures of reports
CSS_DPI = 96  # pixels of a page per inch


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def png_address(content: bytes) -> str:
    """A PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(content).decode()


def png_width(content: bytes) -> int:
    """The width of a report's figure on a page, in the page's pixels, so that its letters have the page's size."""
    return round(int.from_bytes(content[16:20], "big") * CSS_DPI / DPI)
