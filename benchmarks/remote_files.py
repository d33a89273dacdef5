"""Measures how many bytes of remote files are fetched, against the bytes that they have, with an empty cache.

    python benchmarks/remote_files.py --source='s3://bucket/data/*.jsonl' [--rows=100000]

Indexes the files and reads rows in random order: all of them, or so many. Then the same again, as a second run does.
Bytes are those of the answers' bodies, as the client receives them.
"""

import argparse
import os
import tempfile
import time

import numpy as np

from txjax.data.sources.remote_files import RemoteStore
from txjax.data.sources.source_of import source_at
from txjax.log.terminal_table import table


class CountedBytes:
    """The bytes that all stores have fetched.

    Attributes:
      total: their number.
    """

    def __init__(self) -> None:
        self.total = 0
        get = RemoteStore.get

        def counted(store: RemoteStore, key: str, start: int, end: int):
            answer = get(store, key, start, end)
            self.total += len(answer[1]) if answer else 0
            return answer

        RemoteStore.get = counted  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--rows", type=int)
    flags = parser.parse_args()
    counted = CountedBytes()
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TXJAX_CACHE_DIR"] = cache
        for start in ("first", "second"):
            source = source_at(flags.source)
            size = sum(file.size for file in source.find())
            before = counted.total
            begun = time.perf_counter()
            rows = source.read_files(source.find())
            indexed = time.perf_counter()
            order = np.random.default_rng(0).permutation(len(rows.digests))[: flags.rows]
            for number in order.tolist():
                rows.row(number)
            seconds = time.perf_counter() - indexed
            fetched = counted.total - before
            figures = [fetched / 1e6, fetched / size, indexed - begun, seconds / len(order) * 1e6]
            lines.append([start, f"{size / 1e6:.1f}", str(len(order)), *(f"{figure:.4g}" for figure in figures)])
    titles = ["start", "megabytes", "rows read", "megabytes fetched", "ratio", "index in s", "row in us"]
    table("", titles, lines)


if __name__ == "__main__":
    main()
