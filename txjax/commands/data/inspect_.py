"""txjax data inspect PATH: counts, columns, broken rows, duplicates and examples of files."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.data.sources.source_survey import ColumnSurvey, Survey

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
    parser.add_argument(
        "--tokenizer", metavar="FOLDER", help="count the tokens of texts by this one, as transformers saves it (bytes)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page, with pictures and sounds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.data.sources.source_of import source_at
    from txjax.data.sources.source_survey import survey
    from txjax.data.tokenizers.tokenizer import Bytes
    from txjax.data.tokenizers.tokenizer_folder import TokenizerFolder

    if flags.html is not None and not flags.html.parent.is_dir():
        raise UserError("--html", "a file in a folder that is there", str(flags.html))
    tokenizer = Bytes() if flags.tokenizer is None else TokenizerFolder(flags.tokenizer)
    tokenizer.check()
    count_tokens = lambda texts: sum(map(len, tokenizer.encode_batch(texts)))  # noqa: E731
    result = survey(source_at(flags.path), count_tokens, flags.examples, flags.near)
    if flags.html is not None:
        from txjax.io.files import replace_text
        from txjax.report.data_page import data_page

        replace_text(flags.html, data_page(flags.path, result))
    if flags.json:
        print(json.dumps(plain(result)))
    else:
        show(flags.path, result)
    return 0


def plain(survey: "Survey") -> dict[str, Any]:
    """A survey as JSON has it: files are their sizes."""
    values = dataclasses.asdict(survey)
    values["examples"] = [
        {name: f"{len(x):,} bytes" if isinstance(x, bytes) else x for name, x in row.items()}
        for row in values["examples"]
    ]
    return values


def show(path: str, survey: "Survey") -> None:
    """Prints what a survey found."""
    from txjax.log.terminal_table import table

    splits = [[name, f"{count:,}"] for name, count in survey.splits.items()]
    table(f"{path}: {survey.rows:,} rows in {survey.files:,} files", ["split", "rows"], splits)
    print()
    columns = [
        [
            column.name,
            column.kind,
            f"{column.different:,}",
            f"{column.empty:,}",
            *column.range,
            "" if column.tokens is None else f"{column.tokens:,}",
            common(column),
        ]
        for column in survey.columns
    ]
    names = ["column", "kind", "different", "empty", "least", "median", "greatest", "tokens", "most common"]
    table("columns", names, columns)
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
        examples = plain(survey)["examples"]
        names = list(examples[0])
        table("examples", names, [[str(row.get(name, ""))[:60] for name in names] for row in examples])


def common(column: "ColumnSurvey") -> str:
    """The most common values of a column with their numbers."""
    return ", ".join(f"{value} ({count:,})" for value, count in column.common)
