"""Generated tables of the docs: what is between two comments of a page."""

import re

END = "<!-- end -->"


def with_table(page: str, start: str, table: str) -> str:
    """The text of a page with another table after the comment `start`. ValueError if it isn't there once."""
    pattern = re.compile(rf"(?<={re.escape(start)}\n).*?(?=\n{re.escape(END)})", re.DOTALL)
    text, count = pattern.subn(lambda _: table, page)
    if count != 1:
        raise ValueError(f"expected one table between {start} and {END}, got {count}")
    return text


def markdown_table(columns: str, rows: list[list[str]]) -> str:
    """A table of Markdown; the names of its columns are divided by `|`."""
    names = [name.strip() for name in columns.split("|")]
    lines = [names, ["---"] * len(names), *rows]
    ruled = ["|---" * len(names) + "|" if line[0] == "---" else "| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(ruled).replace("|  |", "| |").replace("|  |", "| |")
