"""Renders self-contained HTML pages from `templates/`, light and dark. Every value is escaped."""

import math
from pathlib import Path
from typing import Any

import jinja2

from txjax.numbers import full
from txjax.report.png import png_address, png_width
from txjax.report.wav import wav_address


def render(template: str, title: str, subtitle: str, **values: Any) -> str:
    """Renders a template with these values."""
    return _TEMPLATES.get_template(template).render(title=title, subtitle=subtitle, **values)


def _all_digits(value: float) -> str:
    return str(value) if math.isfinite(value) else ""


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS: dict[str, Any] = {
    "full": full,
    "all_digits": _all_digits,
    "thousands": lambda number: f"{number:,}",
    "percent": lambda share: f"{min(share, 1):.1%}",
    "png_address": png_address,
    "png_width": png_width,
    "wav_address": wav_address,
}
_TEMPLATES.filters |= _FILTERS
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
