"""The data of a law: columns by role, in float64, and a reason for every dropped row."""

import dataclasses
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.errors import UserError, join_names, near_misses
from txjax.scaling.run_diagnostics import run_diagnostics
from txjax.scaling.run_records import OF_RUNS, WITHOUT_EMBEDDINGS, Records, read_records

Points = Mapping[str, np.ndarray]  # by role, float64 [n] each

# Roles of columns. N and D in the formulas are `params` and `tokens`, C is `flops`.
ROLES = {
    "params": "parameters N",
    "tokens": "training tokens D, repeated ones counted every time",
    "flops": "training FLOPs C",
    "loss": "the final loss, in nats (of a training curve: the loss at these tokens)",
    "unique_tokens": "tokens of the data set, which training may repeat",
    "params_without_embeddings": "parameters N counted the other way; the law is refitted with them",
    "learning_rate": "the peak learning rate",
    "batch_size": "the batch, in any unit",
    "group": "the run that a row belongs to",
}
OTHER_PARAMS = "params_without_embeddings"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of finite positive numbers.

    Attributes:
      values: by role, float64 [n].
      names: of the rows, for messages.
      groups: the run of each row. None without a group column.
      dropped: `row` and `reason` of every dropped row.
      warnings: about derived columns and suspicious values.
      source: the path it was read from.
      columns: names of all columns of the source.
    """

    values: Points
    names: np.ndarray
    groups: np.ndarray | None = None
    dropped: tuple[dict[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    source: str = ""
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, role: str) -> bool:
        return role in self.values

    def __getitem__(self, role: str) -> np.ndarray:
        return self.values[role]

    def take(self, index: np.ndarray) -> "Table":
        """The rows at these indices (may repeat) or of this mask."""
        values = {role: column[index] for role, column in self.values.items()}
        groups = None if self.groups is None else self.groups[index]
        return dataclasses.replace(self, values=values, names=self.names[index], groups=groups)

    def adding(self, **columns: np.ndarray) -> "Table":
        """The same rows with columns added or replaced."""
        return dataclasses.replace(self, values={**self.values, **columns})

    def need(self, roles: Sequence[str], form: str) -> None:
        """Raises UserError unless the table has these columns."""
        for role in roles:
            if role not in self.values:
                near = [f"{role}={name}" for name in near_misses(role, self.columns)]
                hint = f"{role} is {ROLES[role]}; the data has {join_names(self.columns, 40)}"
                raise UserError("--columns", f"{role}=COLUMN for {form}", ",".join(self.values), near, hint)

    def scale(self) -> np.ndarray:
        """The size of every row's run: its FLOPs, else tokens or parameters."""
        return next(self[role] for role in ("flops", "tokens", "params", "loss") if role in self.values)

    def digest(self) -> str:
        """A hash of all rows and columns."""
        digest = hashlib.blake2b(digest_size=16)
        for role in sorted(self.values):
            digest.update(role.encode() + np.ascontiguousarray(self[role]).tobytes())
        for group in self.groups if self.groups is not None else ():
            digest.update(str(group).encode() + b"\0")
        return digest.hexdigest()

    @staticmethod
    def of(**columns: Any) -> "Table":
        """A table of columns by role, which may include `group`; nothing is validated."""
        groups = columns.pop("group", None)
        values = {role: np.asarray(column, np.float64) for role, column in columns.items()}
        count = len(next(iter(values.values())))
        names = np.array([f"row {i}" for i in range(1, count + 1)], dtype=object)
        return Table(values, names, None if groups is None else np.asarray(groups, dtype=object))


def read_table(
    path: Path | str, columns: str = "", where: str = "", drop_largest_losses: int = 0, curves: bool = False
) -> Table:
    """Reads a table by the names of its columns.

    Args:
      path: a CSV or JSONL file, or a folder of txjax runs (see `read_records`).
      columns: `params=COL,tokens=COL,...`, by `ROLES`. Without it every role uses the column of its name; for runs it
        overrides `OF_RUNS`.
      where: `COL=VALUE,...`: only rows that match all clauses; also != < <= > >=, and COL=A|B.
      drop_largest_losses: number of rows to drop.
      curves: whether to read every evaluation of runs, not only the last.

    Raises:
      UserError: no such column or file, or no valid row.
    """
    records = read_records(path, curves)
    chosen = _columns(columns, records)
    records = _where(records, where)
    rows = []
    kept = []
    dropped = list(records.dropped)
    numbers = [role for role in chosen if role != "group"]
    for i, (name, row) in enumerate(zip(records.names, records.rows, strict=True)):
        values = {role: number(row.get(chosen[role])) for role in numbers}
        wrong = [
            f"{chosen[r]} is {_shown_value(row.get(chosen[r]))}" for r, v in values.items() if not 0 < v < math.inf
        ]
        if wrong:
            dropped.append({"row": name, "reason": ", ".join(wrong)})
        else:
            rows.append(values)
            kept.append(i)
    if not rows:
        reason = f"{dropped[0]['row']}: {dropped[0]['reason']}" if dropped else "--where matches none"
        raise UserError("--data", "at least one row with finite positive numbers", str(path), hint=reason)
    groups = None
    if "group" in chosen:
        groups = np.array([str(records.rows[i].get(chosen["group"])) for i in kept], dtype=object)
    table = Table(
        {role: np.array([row[role] for row in rows], np.float64) for role in numbers},
        np.array([records.names[i] for i in kept], dtype=object),
        groups,
        tuple(dropped),
        tuple(run_diagnostics([records.rows[i] for i in kept])) if records.of_runs else (),
        source=str(path),
        columns=tuple(records.columns()),
    )
    return _complete_columns(_without_largest(table, drop_largest_losses))


def number(value: Any) -> float:
    """The value as a number; NaN for a blank, a word or a boolean."""
    if isinstance(value, bool) or value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _shown_value(value: Any) -> str:
    text = "" if value is None else str(value).strip()
    return text[:40] or "blank"


def _columns(text: str, records: Records) -> dict[str, str]:
    """The column of each role."""
    known = records.columns()
    field = "--columns"
    parts = re.split(r",(?=\s*\w+\s*=)", text) if text.strip() else []
    chosen: dict[str, str] = {}
    for part in parts:
        role, equals, column = (word.strip() for word in part.partition("="))
        if not equals or not column:
            raise UserError(field, "params=COL,tokens=COL,loss=COL", part, hint=f"the data has {join_names(known, 40)}")
        if role not in ROLES:
            raise UserError(field, "one of " + ", ".join(ROLES), role, near_misses(role, ROLES))
        if column not in known:
            near = near_misses(column, known)
            raise UserError(f"{field} {role}", "a column of the data", column, near, f"it has {join_names(known, 40)}")
        chosen[role] = column
    defaults = OF_RUNS | {OTHER_PARAMS: WITHOUT_EMBEDDINGS} if records.of_runs else {role: role for role in ROLES}
    if records.of_runs and chosen.get("params") == WITHOUT_EMBEDDINGS:
        defaults.pop(OTHER_PARAMS)
    # Once --columns is given for a CSV, other roles get no default column: C is then 6 N D, not a column `flops`.
    chosen |= {r: c for r, c in defaults.items() if r not in chosen and c in known and (records.of_runs or not parts)}
    if records.of_runs and "loss" not in chosen:
        losses = [name for name in known if name.startswith("eval/") and name.endswith("/loss")]
        if len(losses) != 1:
            raise UserError(field, "loss=COL, one of " + (", ".join(losses) or "the metrics of an evaluation"))
        chosen["loss"] = losses[0]
    if "loss" not in chosen:
        near = near_misses("loss", known)
        raise UserError(field, "loss=COL", text or "nothing", near, f"the data has {join_names(known, 40)}")
    return chosen


_OPERATORS = ("!=", "<=", ">=", "=", "<", ">")


def _where(records: Records, text: str) -> Records:
    """The records that match every clause."""
    for column, operator, value in _clauses(text, records.columns()):
        kept = [i for i, row in enumerate(records.rows) if _holds(row.get(column), operator, value)]
        names = [records.names[i] for i in kept]
        rows = [records.rows[i] for i in kept]
        records = dataclasses.replace(records, names=names, rows=rows)
    return records


def _clauses(text: str, known: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    while text.strip(" ,"):
        text = text.strip(" ,")
        column = max((c for c in known if re.match(re.escape(c) + r"\s*(!=|[<>=])", text)), key=len, default=None)
        if column is None:
            name = re.split(r"[!<>=]", text)[0].strip()
            hint = f"the data has {join_names(known, 40)}"
            raise UserError("--where", "COLUMN=VALUE of the data's columns", name, near_misses(name, known), hint)
        rest = text[len(column) :].strip()
        operator = next(o for o in _OPERATORS if rest.startswith(o))
        names = "|".join(re.escape(c) for c in known)
        value, _, text = _split(rest[len(operator) :], rf",\s*(?=(?:{names})\s*(?:!=|[<>=]))")
        yield column, operator, value.strip()


def _split(text: str, pattern: str) -> tuple[str, str, str]:
    match = re.search(pattern, text)
    return (text[: match.start()], ",", text[match.end() :]) if match else (text, "", "")


def _holds(cell: Any, operator: str, value: str) -> bool:
    if operator in ("=", "!="):
        same = any(_same(cell, word.strip()) for word in value.split("|"))
        return same if operator == "=" else not same
    left = number(cell)
    right = number(value)
    if math.isnan(right):
        raise UserError("--where", f"a number after {operator}", value)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def _same(cell: Any, word: str) -> bool:
    text = "" if cell is None else str(cell).strip()
    return text.lower() == word.lower() or number(cell) == number(word)


def _without_largest(table: Table, count: int) -> Table:
    if not 0 <= count < len(table):
        raise UserError("--drop_largest_losses", f"0 to {len(table) - 1}, as there are {len(table)} rows", count)
    order = np.argsort(table["loss"], kind="stable")
    largest = order[len(table) - count :]
    reasons = [
        {"row": str(table.names[i]), "reason": f"loss {table['loss'][i]:.6g} is one of the {count} largest"}
        for i in sorted(largest)
    ]
    kept = table.take(np.sort(order[: len(table) - count]))
    return dataclasses.replace(kept, dropped=(*kept.dropped, *reasons))


def _complete_columns(table: Table) -> Table:
    """The table with the third of N, D and C derived from two, and warnings about derived or duplicate values."""
    has = set(table.values)
    warnings = []
    if {"params", "tokens"} <= has and "flops" not in has:
        warnings.append("no column of FLOPs: C = 6 N D is used, without attention and the parameters that N excludes")
        table = table.adding(flops=6 * table["params"] * table["tokens"])
    elif {"params", "flops"} <= has and "tokens" not in has:
        warnings.append("no column of tokens: D = C / (6 N) is used")
        table = table.adding(tokens=table["flops"] / (6 * table["params"]))
    elif {"tokens", "flops"} <= has and "params" not in has:
        warnings.append("no column of parameters: N = C / (6 D) is used")
        table = table.adding(params=table["flops"] / (6 * table["tokens"]))
    names: dict[tuple[float, ...], str] = {}
    for i, row in enumerate(zip(*table.values.values(), strict=True)):
        name = str(table.names[i])
        if row in names:
            warnings.append(f"{name} is the same as {names[row]}; both are used")
        names.setdefault(row, name)
    return dataclasses.replace(table, warnings=(*table.warnings, *warnings))
