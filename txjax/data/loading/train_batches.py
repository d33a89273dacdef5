"""Training batches of one source and one size."""

from collections.abc import Generator, Sequence
from typing import Any

from txjax.data.dataset import Source
from txjax.data.loading.batch_readers import Batch, Portion
from txjax.data.loading.limits import Limits
from txjax.data.loading.loader import THREADS, portioned_batches


def train_batches(
    source: Source,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    rows: Sequence[int] | None = None,
    limits: Limits | None = None,
    threads: int = THREADS,
    prefetch: int = 4,
    workers: int = 0,
) -> Generator[Batch]:
    """Infinite batches of one source and one size; see `portioned_batches`.

    Args:
      source: the examples.
      batch_size: examples in a global batch.
      rows: the rows of the global batch that this process needs. If None, all.
    """
    portion = Portion(0, source, batch_size, rows)
    settings: Any = {"limits": limits, "threads": threads, "prefetch": prefetch, "workers": workers}
    return portioned_batches([portion], seed=seed, start_step=start_step, **settings)
