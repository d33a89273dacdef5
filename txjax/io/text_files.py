"""Text that people give, in files and in flags: UTF-8 in every locale, with lines that end at a line feed alone."""

import codecs
import os
import re
from pathlib import Path

from txjax.errors import UserError
from txjax.io.files import read_bytes


def read_text(path: Path) -> str:
    """The text of a file, without a byte order mark.

    Raises:
      UserError: the file is not in UTF-8; names the first byte that is not.
      OSError: it can't be read.
    """
    content = read_bytes(path)
    text = content.removeprefix(codecs.BOM_UTF8)
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{text[error.start]:02x} at offset {len(content) - len(text) + error.start}"
        hint = f"convert it from the encoding that it has, such as: iconv -f ISO-8859-1 -t UTF-8 {path.name} > NEW"
        raise UserError(str(path), "text in UTF-8", byte, hint=hint) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without their ends. Raises as `read_text` does."""
    return [line.removesuffix("\n").removesuffix("\r") for line in lines_of(read_text(path))]


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its end.

    A line ends at a line feed: not at a form feed or another character that Unicode has for it (`str.splitlines`).
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def argument_text(argument: str, field: str) -> str:
    """The text of a flag's value, which Python leaves undecoded where the locale has no such characters.

    Raises:
      UserError: the value is neither in the locale's encoding nor in UTF-8.
    """
    if not re.search("[\udc80-\udcff]", argument):
        return argument
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise UserError(field, "text in UTF-8", byte, hint="or set LC_ALL to the locale that it is in") from None
