"""Writes plots of curves to PNG files."""

from collections.abc import Sequence
from pathlib import Path

from txjax.io.disk import dispensable
from txjax.io.files import replace_bytes
from txjax.report.curves import draw
from txjax.report.png import png
from txjax.report.runs import read_runs
from txjax.report.theme import LIGHT


def plot_curves(workdirs: Sequence[Path | str], path: Path | str) -> Path:
    """Draws the curves of the runs in these folders into a PNG file. Returns its path."""
    replace_bytes(Path(path), png(draw(read_runs(workdirs), LIGHT)))
    return Path(path)


def plot_finished(workdir: Path, home: Path | str) -> str:
    """Draws `curves.png` of a run that has ended. Returns text to print, "" if the file could not be written.

    Args:
      home: the workdir as the user knows it, such as the URL of a bucket.
    """
    picture = workdir / "curves.png"
    printed = ""
    with dispensable(picture):
        plot_curves([workdir], picture)
        printed = f"; curves in {str(home).rstrip('/')}/{picture.name}"
    return printed
