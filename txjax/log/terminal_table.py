"""Tables on a terminal: as wide as their words need, else a line for every cell."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from txjax.terminal_escape import visible

BETWEEN = 3  # columns of the terminal between two columns of a table: a space, a rule, a space


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows of text without interpreting markup; all columns but the first are right-aligned.

    On a terminal (or where `COLUMNS` says a width) headers and cells are broken between words, never inside of one;
    a table that is too wide even so becomes a list, a line for every cell. Elsewhere lines have any length.
    """
    names = [visible(column) for column in columns]
    cells = [[visible(cell) for cell in row] for row in rows]
    console = Console(soft_wrap=True, highlight=False)
    if title:
        console.print(plain_text(title, style="italic"))
    limited = console.is_terminal or "COLUMNS" in os.environ
    widths = _widths([names, *cells], console.width if limited else None)
    if widths is None:
        _print_list(console, names, cells)
        return
    grid = Table(header_style="bold", show_edge=False, show_header=any(names))
    for i, (name, width) in enumerate(zip(names, widths, strict=True)):
        grid.add_column(Text(name), justify="left" if i == 0 else "right", width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    whole = sum(widths) + BETWEEN * len(widths)
    Console(width=max(whole, 1)).print(grid)


def plain_text(text: str, **options: Any) -> Text:
    """Text for rich, without interpreting markup such as `[red]`; control characters are escaped."""
    return Text(visible(text), **options)


def _widths(rows: Sequence[Sequence[str]], room: int | None) -> list[int] | None:
    """The widths of the columns, the widest narrowed first. None if their longest words need more than the room."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    if room is None:
        return widths
    least = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    room -= BETWEEN * len(columns)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _print_list(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints each row as its first cell, and below it a line for each other cell that isn't empty."""
    for first, *rest in rows:
        console.print(Text(f"{names[0]} {first}".strip(), style="bold"))
        for name, cell in zip(names[1:], rest, strict=True):
            if cell:
                console.print(Text(f"  {name}: {cell}" if name else f"  {cell}"))
