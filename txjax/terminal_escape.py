"""Escaping of control characters in text for a terminal."""

import logging
import re
import sys

# C0 and C1 (including ESC), direction overrides, line separators, and unpaired surrogates.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LAYOUT = "\n\t"


def visible(text: str, keep: str = "") -> str:
    """The text with its control characters escaped as in Python, `\\x1b`, except those in `keep`."""
    return CONTROLS.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


class Formatter(logging.Formatter):
    """Formats messages, which may include names of files and settings, for a terminal; line breaks are kept."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), LAYOUT)


def printable(text: str) -> str:
    """The text with control characters escaped if stdout is a terminal, since a model may generate some."""
    return visible(text, LAYOUT) if sys.stdout.isatty() else text
