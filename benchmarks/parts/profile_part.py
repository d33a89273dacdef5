"""A run with `txjax train --profile`; its trace stays in the results' folder."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from results import Book, Record

from parts.steps import CONFIG, size
from parts.train_part import FP8, best
from txjax.__main__ import main
from txjax.log import read_metrics

TITLE = "A profile of three steps of the whole loop"


def run(book: Book, tiny: bool) -> None:
    name = "gpt2-124M"
    book.case(name, lambda: _profiled(name, best(book, name, part="train")["flags"], book.folder / "profile", tiny))


def _profiled(name: str, best_flags: dict[str, Any], folder: Path, tiny: bool) -> Record:
    fields = {k: v for k, v in best_flags.items() if k not in FP8} | {"num_steps": 8, "log_every_steps": 1}
    with tempfile.TemporaryDirectory() as temporary:
        workdir = Path(temporary) / "run"
        words = ["train", f"--config={CONFIG}:{name}{'-tiny' * tiny}", f"--workdir={workdir}", "--profile=5:7"]
        code = main([*words, *(f"--config.{field}={value}" for field, value in fields.items())])
        if code != 0:
            raise RuntimeError(f"txjax train ended with exit code {code}")
        step_ms = [row["perf/step_ms"] for row in read_metrics(workdir) if "perf/step_ms" in row]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(workdir / "profile", folder)
    traces = [path for path in folder.rglob("*.xplane.pb") if path.stat().st_size]
    if not traces:
        raise FileNotFoundError(f"no trace in {folder}")
    return {"trace": str(traces[0].relative_to(folder.parent)), "bytes": traces[0].stat().st_size, "step_ms": step_ms}


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for name, record in book.done.items():
        if found := record.get("result"):
            rows.append([name, f"`{found['trace']}`", size(found["bytes"]), f"{min(found['step_ms']):.1f}"])
    return ["model", "trace", "size", "fastest step of the loop, ms"], rows
