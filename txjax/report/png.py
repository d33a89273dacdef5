"""Figures as PNG files, and such files inside a page."""

import base64
import io

from matplotlib.figure import Figure


def png(figure: Figure) -> bytes:
    """The picture as the bytes of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def png_address(content: bytes) -> str:
    """A PNG file as an address that contains it."""
    return "data:image/png;base64," + base64.b64encode(content).decode()
