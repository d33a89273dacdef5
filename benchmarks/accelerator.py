"""Runs all benchmarks that need an accelerator: figures for docs/performance.md, as JSON and as tables in Markdown.

    python benchmarks/accelerator.py [--parts=numerics,train,...] [--out=FOLDER] [--minutes=6] [--retry] [--tiny]

The first steps of all models are compiled beforehand, at once, and kept. Each part runs in a process of its own and
starts no case after `--minutes`; no case takes more than two. Results are appended, case by case, to
`FOLDER/PART.jsonl`: the same command again runs what is missing, a case that fails is recorded in one line and the
others continue (`--retry` runs those again). A case that ends its process, or takes too long, counts as failed. With
`--parts=` nothing runs, and all tables are printed.

`--tiny` runs the same code at tiny sizes, on a CPU too. Exit code: 0, or 1 if a case failed, except for out of memory.
"""

import argparse
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from results import Book, OutOfTime, failed, interrupted, markdown

from txjax import plugins

HERE = Path(__file__).parent
PARTS = ("numerics", "train", "torch", "population", "checkpoints", "plan", "profile")
CASE_SECONDS = 110


def device(environment: dict[str, str], tiny: bool) -> str:
    """The accelerator as JAX sees it, in a separate process: this one must not use it."""
    words = [sys.executable, "-c", "from parts.device import device; print(device())"]
    found = subprocess.run(words, cwd=HERE, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return found.stdout.splitlines()[-1] + ", tiny" * tiny


def part_of(name: str) -> Any:
    """The module of a part."""
    return importlib.import_module(f"parts.{name}_part")


def work(parts: list[str], folder: Path, device: str, until: float, retry: bool, tiny: bool) -> None:
    """Runs parts one after the other in this process, until a `time.time()`."""
    plugins.leave_out()
    deadline = time.monotonic() + until - time.time()
    for name in parts:
        try:
            part_of(name).run(Book(folder, name, device, deadline, CASE_SECONDS, retry), tiny)
        except OutOfTime:
            print(f"{name}: its time is over; the same command runs the rest", flush=True)


def drive(parts: list[str], folder: Path, device: str, flags: list[str], environment: dict[str, str]) -> None:
    """Runs parts in a process; if it dies in a case, the remaining cases run in another one."""
    interrupted(folder)  # a case interrupted with the whole command did not fail
    words = [sys.executable, __file__, f"--worker={','.join(parts)}", f"--out={folder}", f"--device={device}", *flags]
    while True:
        code = subprocess.run(words, env=environment, check=False).returncode
        if code in (0, -signal.SIGINT):
            return
        case = interrupted(folder)
        reason = f"the process ended with exit code {code}"
        if code < 0:
            reason = f"the process ended by {signal.Signals(-code).name}"
            reason += f", after {CASE_SECONDS} s" if code == -signal.SIGALRM else ""
        if case is None:
            Book(folder, parts[0], device).fail("the part itself", f"{reason}, outside of a case")
            return
        Book(folder, case["part"], device).fail(case["case"], reason)
        words = [word for word in words if word != "--retry"]  # it was just retried


def compile_programs(folder: Path, environment: dict[str, str], minutes: float) -> None:
    """Compiles the first steps of all models, each model in a process of its own: most of the work is the CPUs'."""
    words = [sys.executable, __file__, f"--out={folder}"]
    shared = environment | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    deadline = time.monotonic() + 60 * minutes
    workers = [
        subprocess.Popen(
            [*words, f"--compile={name}"], env=shared, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name in part_of("train").SEARCH
    ]
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()


def report(parts: list[str], folder: Path, device: str) -> int:
    """Prints the tables. Returns how many cases failed."""
    failures = 0
    for name in parts:
        book = Book(folder, name, device)
        if not book.done:
            continue
        dates = sorted({record["date"][:10] for record in book.done.values()})
        print(f"\n{part_of(name).TITLE}. {device}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.\n")
        print(markdown(*part_of(name).table(book)))
        failures += sum(map(failed, book.done.values()))
        for case, record in book.done.items():
            if "error" in record:
                print(f"\n{case}: failed: {record['error']}")
    return failures


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path, help="by default runs/accelerator, or a temporary folder with --tiny")
    parser.add_argument("--minutes", type=float, default=6.0, help="after which a part starts no case")
    parser.add_argument("--retry", action="store_true", help="run cases again that failed")
    parser.add_argument("--tiny", action="store_true")
    for hidden, kind in (("--worker", str), ("--device", str), ("--until", float), ("--compile", str)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.worker:
        work(flags.worker.split(","), flags.out, flags.device, flags.until, flags.retry, flags.tiny)
        return 0
    if flags.compile:
        part_of("train").compile_first(flags.compile, flags.tiny)
        return 0
    parts = [part for part in flags.parts.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.out or (Path(temporary) if flags.tiny else Path("runs/accelerator"))
        folder.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        if flags.tiny:  # compiles for far longer than it runs
            environment.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
        environment.setdefault("JAX_COMPILATION_CACHE_DIR", str((folder / "programs").absolute()))
        here = device(environment, flags.tiny)
        if "train" in parts and not flags.tiny and not Book(folder, "train", here).done:
            compile_programs(folder, environment, flags.minutes)
        # Tiny models leave each other room, and a process takes seconds to start; PyTorch has one of its own anyway.
        ours = [part for part in parts if part != "torch"]
        groups = [[part] for part in parts] if not flags.tiny else [ours, ["torch"] * ("torch" in parts)]
        for group in filter(None, groups):
            until = f"--until={time.time() + 60 * flags.minutes}"
            more = [until, *["--retry"] * flags.retry, *["--tiny"] * flags.tiny]
            drive(group, folder, here, more, environment)
        return min(1, report(parts or list(PARTS), folder, here))


if __name__ == "__main__":
    sys.exit(main())
