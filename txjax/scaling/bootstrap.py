"""The bootstrap (Efron 1979): a law refitted to resampled tables."""

import os
from collections.abc import Sequence

import numpy as np
from joblib import Parallel, delayed

from txjax.errors import UserError
from txjax.scaling.form import Form, Parameters
from txjax.scaling.table import Table

ALONE = 40  # up to this many draws run in this process: a worker takes a second to start


def bootstrap(
    form: Form, table: Table, start: Parameters, count: int, seed: int = 0, jobs: int | None = None
) -> list[Parameters | None]:
    """Fits of `count` resampled tables; None where a fit fails. Each draw depends only on the seed and its number.

    Args:
      form: the form to fit, which also resamples tables.
      table: the original rows.
      start: the law fitted to `table`, where each fit starts.
      count: number of draws.
      seed: of the draws.
      jobs: processes. If None, one for each core.
    """
    seeds = np.random.SeedSequence(seed).spawn(count)
    jobs = 1 if count <= ALONE else min(jobs or os.cpu_count() or 1, count)
    parts = [seeds[i::jobs] for i in range(jobs)]
    law_parts = Parallel(n_jobs=jobs)(delayed(_draw)(form, table, start, part) for part in parts)
    laws: list[Parameters | None] = [None] * count
    for i, part in enumerate(law_parts):
        laws[i::jobs] = part
    return laws


def _draw(
    form: Form, table: Table, start: Parameters, seeds: Sequence[np.random.SeedSequence]
) -> list[Parameters | None]:
    return [_one(form, table, start, np.random.default_rng(seed)) for seed in seeds]


def _one(form: Form, table: Table, start: Parameters, rng: np.random.Generator) -> Parameters | None:
    try:
        parameters = form.fit(form.resample(table, rng), start).parameters
    except UserError:
        return None
    return parameters if np.all(np.isfinite(list(parameters.values()))) else None
