"""Contenders in processes of their own that do the same work in turn, so that a busy machine slows all of them."""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

Work = Callable[[], Any]

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def serve(make: Callable[[], tuple[Work, dict[str, Any]]], clock: Callable[[], float]) -> None:
    """Reads numbers from standard input, works so many times, and prints the seconds of each.

    Args:
      make: returns the work and facts about it, which are printed first, with the seconds of its first time.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    work, facts = make()
    started = time.perf_counter()
    work()
    first = time.perf_counter() - started
    work()
    print(json.dumps({**facts, "first": first}), file=answers, flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            started = clock()
            work()
            seconds.append(clock() - started)
        print(json.dumps(seconds), file=answers, flush=True)


def race(
    commands: Mapping[str, Sequence[str]], rounds: int, steps: int
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Facts and seconds of every contender, with alternating rounds; and the last output of those that failed.

    Args:
      commands: of processes that call `serve`, by contender.
      steps: how often each works in a round.
    """
    found: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        workers = {}
        for contender, command in commands.items():
            worker = Worker(command, stack.enter_context(tempfile.TemporaryFile("w+")))
            workers[contender] = stack.enter_context(worker)
        for count in [None] + [steps] * rounds:
            for contender, worker in list(workers.items()):
                try:
                    answer = worker.ask(count)
                except EOFError as error:
                    failed[contender] = str(error)
                    found.pop(contender, None)
                    del workers[contender]
                    continue
                if count is None:
                    found[contender] = {**answer, "seconds": []}
                else:
                    found[contender]["seconds"] += answer
    return found, failed


def ratio(mine: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios of seconds that were measured side by side."""
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


class Worker(contextlib.AbstractContextManager):
    """A contender in its own process."""

    def __init__(self, command: Sequence[str], output: IO[str]):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=output, encoding="utf-8")
        self.output = output

    def ask(self, steps: int | None) -> Any:
        """Requests work so many times and returns the reply. If None, waits for the start. Raises EOFError on exit."""
        process = self.process
        assert process.stdin and process.stdout
        with contextlib.suppress(BrokenPipeError):
            if steps is not None:
                print(steps, file=process.stdin, flush=True)
        if line := process.stdout.readline():
            return json.loads(line)
        process.wait()
        self.output.seek(0)
        lines = self.output.read().strip().splitlines()
        raise EOFError(f"exit code {process.returncode}: {lines[-1] if lines else 'no output'}"[:200])

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()
