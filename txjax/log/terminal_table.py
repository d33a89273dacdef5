"""Tables on a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from txjax.visible import visible


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows of text without interpreting markup; all columns but the first are right-aligned."""
    drawn = Table(title=plain_text(title), title_justify="left", header_style="bold", show_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(plain_text(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*map(plain_text, row))
    Console().print(drawn)


def plain_text(text: str, **options: Any) -> Text:
    """Text for rich, without interpreting markup such as `[red]`; control characters are escaped."""
    return Text(visible(text), **options)
