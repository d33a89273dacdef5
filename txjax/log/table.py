"""Tables on a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows of text; all columns but the first stand right."""
    drawn = Table(title=title, title_justify="left", header_style="bold", show_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    Console().print(drawn)
