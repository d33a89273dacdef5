"""txjax scaling compare A B: compares parameters and predictions of two laws from `scaling fit --save`."""

import json
from pathlib import Path
from typing import Any

from txjax.cli.parser import Parser
from txjax.cli.scaling_flags import plain
from txjax.errors import UserError
from txjax.io.text_files import read_text
from txjax.numbers import five_digits

SUMMARY = "compare two laws: differences with intervals"


def run(argv: list[str]) -> int:
    parser = Parser("scaling compare", __doc__)
    parser.add_argument("a", type=Path, metavar="A", help="a file of `txjax scaling fit --save`")
    parser.add_argument("b", type=Path, metavar="B", help="another")
    parser.add_argument("--predict", action="append", default=[], metavar="AT", help="compare these predictions too")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write a plot of both intervals there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.log.terminal_table import table
    from txjax.scaling.study import parse_point

    points = [parse_point(text) for text in flags.predict]
    laws = [_read(flags.a), _read(flags.b)]
    rows = list(_differences(laws, points))
    if not rows:
        raise UserError("B", f"a law that shares a parameter with {laws[0]['form']}", laws[1]["form"])
    pictures = []
    if flags.plots:
        from txjax.report.scaling_plots import write_comparison

        pictures = write_comparison(rows, (flags.a.stem, flags.b.stem), flags.plots)
    if flags.json:
        print(json.dumps({"a": str(flags.a), "b": str(flags.b), "differences": plain(rows)}))
        return 0
    lines = [
        [
            r["name"],
            *(f"{five_digits(r[side])} ({five_digits(r[f'{side}_interval'])})" for side in ("a", "b")),
            f"{five_digits(r['difference'])} ({five_digits(r['difference_interval'])})",
            "yes" if r["differs"] else "",
        ]
        for r in rows
    ]
    table("two laws, with 95% intervals", ["", flags.a.stem, flags.b.stem, "B - A", "differs"], lines)
    for path in pictures:
        print(path)
    return 0


def _read(path: Path) -> dict[str, Any]:
    hint = ""
    try:
        law = json.loads(read_text(path))
        hint = law.get("no_intervals", "")
        if law["form"] and any(law["draws"]) and law["parameters"]:
            return law
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    expected = "files that `txjax scaling fit --save=FILE` wrote, with a bootstrap"
    raise UserError("A and B", expected, str(path), hint=hint)


def _differences(laws: list[dict[str, Any]], points: list[dict[str, float]]) -> Any:
    """Yields B - A of every common parameter and of every prediction.

    Draws are paired by number: with the same rows and seed, draws of one number are of the same resampled table.
    """
    from txjax.scaling.forms import law_named
    from txjax.scaling.study import interval

    def row(name: str, values: list[float], draws: list[list[float]]) -> dict[str, Any]:
        apart = [b - a for a, b in zip(*draws, strict=False)]
        low, high = interval(apart)
        summary = {"name": name, "a": values[0], "b": values[1], "difference": values[1] - values[0]}
        summary |= {f"{side}_interval": interval(samples) for side, samples in zip("ab", draws, strict=True)}
        return summary | {"difference_interval": [low, high], "differs": not low <= 0 <= high}

    count = min(len(law["draws"]) for law in laws)
    numbers = [i for i in range(count) if all(law["draws"][i] for law in laws)]
    for name in laws[0]["parameters"]:
        if name in laws[1]["parameters"]:
            draws = [[law["draws"][i][name] for i in numbers] for law in laws]
            yield row(name, [law["parameters"][name] for law in laws], draws)
    for at in points:
        forms = [law_named(law["form"], law["parameters"], law["needs"]) for law in laws]
        predictions = [form.predict(law["parameters"], at) for form, law in zip(forms, laws, strict=True)]
        draw_predictions = [
            [form.predict(law["draws"][i], at) for i in numbers] for form, law in zip(forms, laws, strict=True)
        ]
        point = ",".join(f"{role}={value:g}" for role, value in at.items())
        for name in predictions[0]:
            yield row(
                f"{name} at {point}",
                [o[name] for o in predictions],
                [[d[name] for d in law_draws] for law_draws in draw_predictions],
            )
