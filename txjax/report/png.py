"""Figures as PNG bytes, and PNG bytes as data URLs."""

import base64
import io

from matplotlib.figure import Figure


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def png_address(content: bytes) -> str:
    """A PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(content).decode()
