"""Words of others on a terminal: what would steer it is shown, never sent."""

import logging
import re

# C0 and C1 (ESC among them), what turns the direction of a line or ends one, and halves of surrogate pairs.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LAYOUT = "\n\t"


def visible(text: str, keep: str = "") -> str:
    """The text with its control characters written as Python writes them, `\\x1b`, but for those to keep."""
    return CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


class Formatter(logging.Formatter):
    """Messages, which may name files and settings of others, for a terminal; lines stay lines."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), LAYOUT)
