"""txjax fetch: copies a run from a bucket into a folder, for all commands that read runs."""

from pathlib import Path

from txjax.cli.parser import Parser

SUMMARY = "copy a run from a bucket into a folder"


def run(argv: list[str]) -> int:
    parser = Parser("fetch", __doc__)
    parser.add_argument("--workdir", required=True, help="the run: s3://bucket/runs/first or gs://bucket/runs/first")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    flags = parser.parse_args(argv)

    from txjax.train.bucket import fetch_workdir

    number = fetch_workdir("--workdir", flags.workdir, flags.to)
    print(f"{number} files of {flags.workdir} are in {flags.to}")
    return 0
