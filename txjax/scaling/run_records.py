"""Records of runs, one dict each: the rows of a CSV or JSONL file, or the folders of txjax's own runs."""

import csv
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from txjax.errors import UserError
from txjax.io.text_files import lines_of, read_text
from txjax.log import METRICS, read_metrics
from txjax.tree import flatten, read_json

# Default columns of runs by role; --columns overrides them.
OF_RUNS = {
    "params": "parameters",
    "tokens": "tokens",
    "flops": "flops",
    "unique_tokens": "unique_tokens",
    "group": "run",
}
WITHOUT_EMBEDDINGS = "parameters_without_embeddings"
_FACTS = ("tokens_per_step", "tokens_per_epoch", "flops_per_step")  # numbers in manifest.json


@dataclasses.dataclass(frozen=True)
class Records:
    """Records of runs before their columns are chosen.

    Attributes:
      names: of each record, for messages: `row 3 (line 4)`, or a run's folder.
      rows: column name -> value as written.
      dropped: `row` and `reason` of everything skipped.
      of_runs: whether they are txjax runs.
    """

    names: list[str]
    rows: list[Mapping[str, Any]]
    dropped: list[dict[str, str]]
    of_runs: bool = False

    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))


def read_records(path: Path | str, curves: bool = False) -> Records:
    """The records in a file (.csv, .tsv, .jsonl) or of the runs below a folder; values are not converted.

    Args:
      path: the file or the folder.
      curves: whether to read every evaluation of runs, not only the last.

    Raises:
      UserError: the path does not exist, has no such table, or is not in UTF-8.
    """
    path = Path(path)
    if path.is_dir():
        return _runs(path, curves)
    if not path.is_file():
        raise UserError("--data", "a CSV or JSONL file, or a folder of runs", str(path), hint="there is no such file")
    text = read_text(path)
    read = _json_lines if path.suffix in (".jsonl", ".ndjson", ".json") else _csv
    numbered = list(read(path, text))
    if not numbered:
        raise UserError("--data", "a table with rows", str(path), hint="it is empty")
    names = [f"row {i} (line {line})" for i, (line, _) in enumerate(numbered, start=1)]
    return Records(names, [row for _, row in numbered], [])


def _csv(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(lines_of(text), delimiter="\t" if path.suffix == ".tsv" else ",")
    for row in reader:
        if None in row:
            raise UserError(f"{path}:{reader.line_num}", f"{len(reader.fieldnames or ())} cells", f"{len(row)} or more")
        yield reader.line_num, {name.strip(): value for name, value in row.items()}


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines_of(text), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}", "one JSON object a line", line[:80].rstrip())
        yield number, flatten(row)


def _runs(folder: Path, curves: bool) -> Records:
    records = Records([], [], [], of_runs=True)
    workdirs = sorted(path.parent for path in folder.rglob("config.json") if (path.parent / "manifest.json").exists())
    if not workdirs:
        raise UserError("--data", "a folder of runs (with config.json and manifest.json)", str(folder))
    for workdir in workdirs:
        name = str(workdir.relative_to(folder)) if workdir != folder else folder.name
        try:
            rows = _run(workdir, name, curves)
        except UserError as error:
            records.dropped.append({"row": name, "reason": str(error)})
            continue
        records.names.extend(name if not curves else f"{name} step {row['step']}" for row in rows)
        records.rows.extend(rows)
    return records


def _run(workdir: Path, name: str, curves: bool) -> list[dict[str, Any]]:
    config = read_json(workdir / "config.json")
    manifest = read_json(workdir / "manifest.json")
    if not (workdir / METRICS).exists():
        raise UserError(name, "a run that was started", hint=f"it has no {METRICS}")
    log = read_metrics(workdir)
    step = int(log[-1]["step"]) if log else 0
    planned = _number(workdir / "config.json", config, "num_steps") or 0
    if step < planned and not curves:
        raise UserError(name, f"a run that reached its end, step {planned}", f"step {step}")
    if curves and config.get("changes"):
        raise UserError(name, "batches that don't change, since each row of a curve counts its tokens by the steps")
    facts = {key: _number(workdir / "manifest.json", manifest, key) for key in _FACTS}
    size = facts["tokens_per_step"] or _tokens_per_step(config)
    known = {key: value for key, value in flatten(config).items() if not isinstance(value, list | dict)}
    known |= {"run": name, "parameters": manifest.get("parameters")}
    if WITHOUT_EMBEDDINGS in manifest:
        known[WITHOUT_EMBEDDINGS] = manifest[WITHOUT_EMBEDDINGS]

    def row_at(step: int, metrics: Mapping[str, Any]) -> dict[str, Any]:
        work = {"step": step, "tokens": step * size if size else None}
        if size and facts["tokens_per_epoch"] is not None:
            work["unique_tokens"] = min(step * size, facts["tokens_per_epoch"])
        flops = math.nan if facts["flops_per_step"] is None else facts["flops_per_step"]
        return known | dict(metrics) | work | {"flops": step * flops}

    if curves:
        evaluated = [row for row in log if any(k.startswith("eval/") and k.endswith("/loss") for k in row)]
        return [row_at(int(row["step"]), row) for row in evaluated]
    last = {key: value for row in log for key, value in row.items() if key != "time"}
    return [row_at(step, last)]


def _tokens_per_step(config: Mapping[str, Any]) -> int | None:
    """Tokens of a batch, for a run whose manifest does not record them."""
    data = config.get("data")
    batch = config.get("batch_size")
    length = data.get("length") if isinstance(data, dict) else None
    return batch * length if isinstance(length, int) and isinstance(batch, int) and length else None


def _number(path: Path, values: Mapping[str, Any], key: str) -> Any:
    """A number in a file of a run, at least 0; None if it has none. Raises UserError for another value."""
    value = values.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
        raise UserError(f"{path}: {key}", "a number from 0", value)
    return value
