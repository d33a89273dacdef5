"""Pictures and texts that runs made of themselves, for the report's page: the latest large, the way there in a row."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from txjax.report.runs import Run

SHOWN = 6  # earlier steps that are shown, evenly spread

STYLE = """
figure { margin: 0; }
figcaption { color: var(--faint); font-size: 0.85rem; margin: 0.5rem 0 0; }
.made { margin-bottom: 1rem; }
.made h3 { font-size: 0.9rem; margin: 0 0 0.75rem; }
.made img { width: auto; max-width: 100%; }
.row { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem;
  margin-top: 1rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
pre { margin: 0; font: 0.85rem/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
details { border-top: 1px solid var(--rule); margin-top: 0.75rem; padding-top: 0.75rem; }
summary { color: var(--faint); font-size: 0.85rem; cursor: pointer; }
details pre { margin-top: 0.75rem; }
"""


def gallery(runs: Sequence[Run]) -> str:
    """The sections "Pictures" and "Samples" of all runs; nothing where there are none."""
    parts = []
    for title, kind, card in (("Pictures", "pictures", _pictures), ("Samples", "samples", _texts)):
        cards = [
            f'<div class="card made"><h3>{html.escape(f"{run.name} {name}" if len(runs) > 1 else name)}</h3>'
            f"{card(files)}</div>"
            for run in runs
            for name, files in run.made(kind).items()
        ]
        parts += [f"<h2>{title}</h2>", *cards] if cards else []
    return "\n".join(parts)


def png_address(content: bytes) -> str:
    """A PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _pictures(files: dict[int, Path]) -> str:
    *earlier, latest = files
    row = "".join(_figure(step, files[step]) for step in _spread(earlier))
    return _figure(latest, files[latest]) + (f'<div class="row">{row}</div>' if row else "")


def _figure(step: int, path: Path) -> str:
    image = f'<img alt="{html.escape(path.parent.name)} at step {step}" src="{png_address(path.read_bytes())}">'
    return f"<figure>{image}<figcaption>step {step:,}</figcaption></figure>"


def _texts(files: dict[int, Path]) -> str:
    *earlier, latest = files
    before = [
        f"<details><summary>step {step:,}</summary>{_text(files[step])}</details>" for step in _spread(earlier)[::-1]
    ]
    return f"<figure>{_text(files[latest])}<figcaption>step {latest:,}</figcaption></figure>{''.join(before)}"


def _text(path: Path) -> str:
    return f"<pre>{html.escape(path.read_text(errors='replace'))}</pre>"


def _spread(steps: Sequence[int]) -> list[int]:
    """At most SHOWN of them, the first and the last among these."""
    if len(steps) <= SHOWN:
        return list(steps)
    return [steps[i * (len(steps) - 1) // (SHOWN - 1)] for i in range(SHOWN)]
