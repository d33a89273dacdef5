"""txjax data inspect PATH: counts, columns, broken rows, duplicates and examples of files."""

import dataclasses
import json
from typing import TYPE_CHECKING

from txjax.cli.parser import Parser

if TYPE_CHECKING:
    from txjax.data.sources.source_survey import Survey

SUMMARY = "count rows and values of files; find broken rows and duplicates; show examples"


def run(argv: list[str]) -> int:
    parser = Parser("data inspect", __doc__)
    parser.add_argument(
        "path", metavar="PATH", help="files, as data.source names them: my/*.jsonl, reviews.csv, photos"
    )
    parser.add_argument("--examples", type=int, default=20, metavar="N", help="rows that are shown (20)")
    parser.add_argument(
        "--near", type=float, metavar="SHARE", help="also count texts that share so many of their three-word pieces"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.data.sources.source_of import source_at
    from txjax.data.sources.source_survey import survey

    result = survey(source_at(flags.path), flags.examples, flags.near)
    if flags.json:
        print(json.dumps(dataclasses.asdict(result), default=str))
    else:
        show(flags.path, result)
    return 0


def show(path: str, survey: "Survey") -> None:
    """Prints what a survey found."""
    from txjax.log.terminal_table import table

    splits = [[name, f"{count:,}"] for name, count in survey.splits.items()]
    table(f"{path}: {survey.rows:,} rows in {survey.files:,} files", ["split", "rows"], splits)
    print()
    columns = [
        [column.name, column.kind, f"{column.different:,}", f"{column.empty:,}", *column.range, column.common]
        for column in survey.columns
    ]
    table("columns", ["column", "kind", "different", "empty", "least", "median", "greatest", "most common"], columns)
    print()
    facts = [
        ["broken rows", f"{survey.broken:,}", "; ".join(survey.first_broken[:3])],
        ["equal to an earlier row", f"{survey.duplicates:,}", ""],
        ["of these, in another split", f"{survey.duplicates_across:,}", ""],
    ]
    if survey.near_duplicates is not None:
        facts.append(["texts like an earlier one", f"{survey.near_duplicates:,}", ""])
    table("", ["what", "rows", "first"], facts)
    if survey.examples:
        print()
        names = list(survey.examples[0])
        table("examples", names, [[str(row.get(name, ""))[:60] for name in names] for row in survey.examples])
