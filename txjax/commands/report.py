"""txjax report RUN [RUN...]: curves and final scores of runs side by side, as a picture and one HTML page.

For a sweep's folder: a table of all points, averaged over seeds, and plots of the metric along the sweep's axes.
"""

import json
from pathlib import Path

from txjax.cli.parser import Parser
from txjax.errors import UserError

SUMMARY = "draw the curves of runs, side by side, and write a page about them"


def run(argv: list[str]) -> int:
    parser = Parser("report", __doc__)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", type=Path, help="the folder (--workdir) of a run, or of a sweep"
    )
    parser.add_argument("--out", type=Path, help="where the report goes; default: the first run's folder, report/")
    parser.add_argument("--sort", metavar="METRIC", help="of a sweep: best first; -METRIC if larger is better")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)
    if len(flags.runs) == 1 and (flags.runs[0] / "sweep.json").exists():
        from txjax.report import sweep_report

        sweep_report.report(flags.runs[0], flags.out or flags.runs[0] / "report", flags.sort, flags.json)
        return 0
    if flags.sort:
        raise UserError("--sort", "the folder of one sweep", " ".join(map(str, flags.runs)))

    from txjax.io.files import replace_bytes, replace_text
    from txjax.log import plain
    from txjax.log.terminal_table import table
    from txjax.numbers import full
    from txjax.report.curves import draw
    from txjax.report.png import png
    from txjax.report.run_page import page, scores
    from txjax.report.runs import check_inside, read_runs
    from txjax.report.theme import DARK, LIGHT

    runs = read_runs(flags.runs)
    out = flags.out or runs[0].workdir / "report"
    if flags.out is None:
        check_inside("--out", out, runs[0].workdir)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "curves.png"
    html = out / "index.html"
    light = png(draw(runs, LIGHT))
    replace_bytes(picture, light)
    replace_text(html, page(runs, light, png(draw(runs, DARK)), out))
    if flags.json:
        summaries = [{"name": r.name, "workdir": str(r.workdir), "metrics": plain(scores(r))} for r in runs]
        print(json.dumps({"runs": summaries, "curves": str(picture), "html": str(html)}))
        return 0
    scores_by_run = [scores(r) for r in runs]
    rows = [
        [name, *(full(s.get(name, "")) for s in scores_by_run)]
        for name in dict.fromkeys(k for s in scores_by_run for k in s)
    ]
    table("final metrics", ["metric", *(r.name for r in runs)], rows)
    print(f"\n{picture}\n{html}")
    return 0
