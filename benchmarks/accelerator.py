"""All that needs an accelerator, by one command: figures for docs/performance.md, as JSON and as tables in Markdown.

    python benchmarks/accelerator.py [--parts=numerics,train,...] [--out=FOLDER] [--minutes=8] [--retry] [--tiny]

Each part runs in a process of its own and starts no case after `--minutes`. Results are appended, case by case, to
`FOLDER/PART.jsonl`: the same command again runs what is missing, a case that failed is recorded in one line and the
others go on (`--retry` runs those again). A case that ends its process, or takes too long, has failed, too. With
`--parts=` nothing runs, and the tables are printed.

`--tiny` runs the same code at tiny sizes, on a CPU too. Exit code: 0, or 1 where a case failed other than for memory.
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

sys.path.insert(0, str(Path(__file__).parent))

from results import Book, OutOfTime, failed, interrupted, markdown, one_line

PARTS = ("numerics", "train", "torch", "population", "checkpoints", "plan", "profile")
CASE_SECONDS = 240


def work(parts: list[str], folder: Path, minutes: float, retry: bool, tiny: bool) -> None:
    """Runs parts one after the other in this process."""
    for name in parts:
        part = importlib.import_module(f"parts.{name}_part")
        device = part.device() + (", tiny" if tiny else "")
        (folder / "device.txt").write_text(device)
        book = Book(folder, name, device, time.monotonic() + 60 * minutes, CASE_SECONDS, retry)
        try:
            part.run(book, tiny)
        except OutOfTime:
            print(f"{name}: {minutes:g} minutes are over; the same command runs the rest", flush=True)


def drive(parts: list[str], folder: Path, flags: list[str]) -> None:
    """Runs parts in a process, and in another one those cases that are left when it dies in one."""
    environment = dict(os.environ)
    if "--tiny" in flags:  # compiles for far longer than it runs
        environment.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    interrupted(folder)  # by someone who stopped the whole command: not that case's fault
    while True:
        words = [sys.executable, __file__, f"--worker={','.join(parts)}", f"--out={folder}", *flags]
        code = subprocess.run(words, env=environment, check=False).returncode
        case = interrupted(folder)
        if code == 0 or code == -signal.SIGINT:
            return
        flags = [flag for flag in flags if flag != "--retry"]  # what failed just now has had its turn
        said = f"the process ended with exit code {code}"
        if code < 0:
            said = f"the process ended by {signal.Signals(-code).name}"
            said += f", after {CASE_SECONDS} s" if code == -signal.SIGALRM else ""
        if case is None:
            print(f"{','.join(parts)}: {said}, outside of a case", flush=True)
            Book(folder, parts[0], _device(folder)).fail("the part itself", said)
            return
        Book(folder, case["part"], case["device"]).fail(case["case"], said)


def report(parts: list[str], folder: Path) -> int:
    """Prints the tables. Returns how many cases failed."""
    failures = 0
    for name in parts:
        book = Book(folder, name, _device(folder))
        if not book.done:
            continue
        part = importlib.import_module(f"parts.{name}_part")
        dates = sorted({record["date"][:10] for record in book.done.values()})
        print(f"\n{part.TITLE}. {book.device}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.\n")
        try:
            print(markdown(*part.table(book)))
        except Exception as error:  # the records are there; the other tables come
            print(f"no table: {one_line(error)}")
            failures += 1
        failures += sum(map(failed, book.done.values()))
        for case, record in book.done.items():
            if "error" in record:
                print(f"\n{case}: failed: {record['error']}")
    return failures


def _device(folder: Path) -> str:
    path = folder / "device.txt"
    return path.read_text() if path.exists() else "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path, help="by default runs/accelerator, or a temporary folder with --tiny")
    parser.add_argument("--minutes", type=float, default=7.5, help="for each part")
    parser.add_argument("--retry", action="store_true", help="run cases again that failed")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        work(flags.worker.split(","), flags.out, flags.minutes, flags.retry, flags.tiny)
        return 0
    parts = [part for part in flags.parts.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.out or (Path(temporary) if flags.tiny else Path("runs/accelerator"))
        folder.mkdir(parents=True, exist_ok=True)
        more = [f"--minutes={flags.minutes}", *["--retry"] * flags.retry, *["--tiny"] * flags.tiny]
        # Tiny models leave each other room, and a process takes seconds to start; PyTorch has one of its own anyway.
        ours = [part for part in parts if part != "torch"]
        groups = [[part] for part in parts] if not flags.tiny else [ours, ["torch"] * ("torch" in parts)]
        for group in filter(None, groups):
            drive(group, folder, more)
        return min(1, report(parts or list(PARTS), folder))


if __name__ == "__main__":
    sys.exit(main())
