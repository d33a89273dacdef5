"""Tasks of lm-evaluation-harness (Gao et al. 2021): names, documents, scores. The only file that runs the library."""

import contextlib
import functools
import io
import logging
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.errors import UserError, near_misses, require

OWN = Path(__file__).with_name("harness_tasks")  # tasks whose documents are in the package
SEED = 1234  # the library's, for the examples of a prompt
LOGGERS = ("lm_eval", "datasets", "huggingface_hub")


def check_tasks(tasks: Sequence[str], prefix: str, include_path: str | None = None) -> None:
    """Checks the names of tasks. No documents are read.

    Args:
      prefix: of the names of fields in messages: `eval.` or `--`.
      include_path: a folder of further tasks.

    Raises:
      UserError: the library is missing, there is no such folder, no task, or one that is unknown.
    """
    require("lm_eval", "lm_eval", f"{prefix}tasks", extra="harness")
    if include_path is not None and not Path(include_path).expanduser().is_dir():
        raise UserError(f"{prefix}include_path", "a folder of tasks", include_path)
    if not tasks:
        raise UserError(f"{prefix}tasks", "at least one task", tasks)
    manager = manager_of(tuple(tasks), include_path)
    for task in tasks:
        if task not in manager.task_index:
            near = near_misses(task, manager.all_tasks)
            raise UserError(f"{prefix}tasks", "tasks, groups or tags of lm-evaluation-harness", task, near)


@functools.lru_cache(maxsize=2)
def manager_of(tasks: tuple[str, ...], include_path: str | None) -> Any:
    """The library's `TaskManager` that knows the tasks; of the library's own thousands only if it has to."""
    from lm_eval.tasks import TaskManager  # an extra

    folders = [OWN, *([Path(include_path).expanduser()] if include_path else [])]
    with quiet():
        manager = TaskManager(include_path=folders, include_defaults=False)
        if all(task in manager.task_index for task in tasks):
            return manager
        return TaskManager(include_path=folders)


def load(tasks: Sequence[str], field: str, include_path: str | None = None, num_fewshot: int | None = None) -> Any:
    """The library's `TaskDict` of these tasks with their documents, from local files, its cache or the hub.

    Args:
      num_fewshot: examples in a prompt. If None, each task's own number. A task that sets 0 keeps it, as in the
        library.

    Raises:
      UserError: documents can't be read, or the task runs code that a model writes.
    """
    with quiet(), fixed_seeds():
        try:
            loaded = manager_of(tuple(tasks), include_path).load(list(tasks))
        except Exception as error:  # of the hub, of the disk, of the task's own code
            hint = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise UserError(
                f"{field}.tasks", "tasks whose documents can be read", ", ".join(tasks), hint=hint
            ) from error
    for name, task in loaded["tasks"].items():
        if getattr(task, "UNSAFE_CODE", False) or getattr(task, "MULTIMODAL", False):
            raise UserError(f"{field}.tasks", "tasks of texts alone, which run no code of a model", name)
        shots = task.get_config("num_fewshot")
        task.set_config(key="num_fewshot", value=shots or 0 if num_fewshot is None or shots == 0 else num_fewshot)
    return loaded


def evaluate(model: Any, loaded: Any, limit: int | None, resamplings: int) -> dict[str, float]:
    """The scores of a model. Equal answers give equal scores: all draws begin at the same seeds.

    Args:
      model: the harness's `LM`.
      limit: documents of a task, the first ones. If None, all.
      resamplings: for the standard errors of metrics that are no means.

    Returns:
      `TASK/METRIC`, and `TASK/METRIC_stderr` where the library has one; `TASK/FILTER/METRIC` if the task filters its
      answers.
    """
    from lm_eval.evaluator import evaluate as evaluated  # an extra

    for task in loaded["tasks"].values():
        task.set_fewshot_seed(seed=SEED)
    with quiet(), fixed_seeds(), in_this_process():
        outputs = evaluated(model, loaded, limit=limit, bootstrap_iters=resamplings, log_samples=False)
    scores = {}
    for task, values in outputs["results"].items():
        for key, value in values.items():
            metric, comma, kind = key.partition(",")
            if comma and isinstance(value, int | float | np.number) and np.isfinite(value):
                scores[f"{task}/{metric}" if kind == "none" else f"{task}/{kind}/{metric}"] = float(value)
    return scores


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the library's progress bars, prints and notes."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def fixed_seeds() -> Iterator[None]:
    """Python's and numpy's global generators, which some tasks draw from, at fixed seeds; afterwards as before."""
    states = random.getstate(), np.random.get_state()
    random.seed(0)
    np.random.seed(SEED)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextlib.contextmanager
def in_this_process() -> Iterator[None]:
    """The library resamples in this process: it would fork it, which a process with JAX does not survive."""
    name = "DISABLE_MULTIPROC"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
