"""The results of each example of an evaluation, from which intervals and comparisons of runs are computed."""

import io
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

# Columns [N ...] by name: `id`, the numbers of the examples in their set; `given`, what is the same for every model,
# such as the label; and any others. A column with the name of a score has its value for each example, or, if there is
# a column NAME_count, its sum over so many things.
Rows = dict[str, np.ndarray]

ID = "id"
GIVEN = "given"
COUNT = "_count"


def real_rows(parts: Iterable[Mapping[str, Any]]) -> Rows:
    """One table of the results of all batches of a source, in order, without examples of weight 0.

    Args:
      parts: columns [B ...] of each batch; `weights` [B] is one of them and isn't in the table.
    """
    whole = jax.tree.map(lambda *column: np.concatenate(column), *parts)
    weighted = whole["weights"] > 0
    return {ID: np.flatnonzero(weighted)} | {name: x[weighted] for name, x in whole.items() if name != "weights"}


def means(rows: Rows) -> dict[str, float]:
    """The mean of each column with the name of a score, in float64; none where nothing is counted."""
    scores = {}
    for name in rows:
        if name not in (ID, GIVEN) and not name.endswith(COUNT):
            count = rows[name + COUNT].sum(dtype=np.float64) if name + COUNT in rows else len(rows[name])
            if count:
                scores[name] = float(rows[name].sum(dtype=np.float64) / count)
    return scores


def digests(contents: Iterable[Any]) -> Int[np.ndarray, "N"]:
    """A number for each text, or other value, by its `repr`."""
    return np.array([zlib.crc32(repr(content).encode()) for content in contents], np.int64)


def pack_rows(rows: Rows) -> bytes:
    """The content of a file of a table, in numpy's format npz."""
    file = io.BytesIO()
    np.savez_compressed(file, **rows)  # type: ignore[arg-type]
    return file.getvalue()


def unpack_rows(content: bytes) -> Rows:
    """The table of a file's content.

    Raises:
      ValueError: it is damaged, or no table.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            rows = {name: arrays[name] for name in arrays.files}
    except Exception as error:  # of zipfile, zlib and numpy, a dozen kinds
        raise ValueError(str(error)) from error
    if not {ID, GIVEN} <= set(rows) or len({len(column) for column in rows.values()}) != 1:
        raise ValueError("no results of examples")
    return rows
