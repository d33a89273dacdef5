"""Output of a running run: a progress line on the console, messages on stderr and in `workdir/logs`."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from txjax.log.terminal_table import plain_text
from txjax.log.trackers.tracker import Value
from txjax.numbers import compact
from txjax.terminal_escape import Formatter

REFRESHES_PER_SECOND = 2
BAR = 10  # characters

logger = logging.getLogger("txjax")


class Progress:
    """Progress on the console: a live line on a terminal, one plain line per row elsewhere.

    The live line begins with the step and the ETA; fields that don't fit the width are left out.
    """

    def __init__(self, num_steps: int, console: Console | None = None, start_step: int = 0):
        self.num_steps = num_steps
        self.step = start_step
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.first: tuple[int, float] | None = None
        self.left = ""  # the ETA, once known
        self.parts: list[str] = []
        self.doing: tuple[str, float] | None = None  # work other than steps, and its start time
        self.live = (
            Live(console=self.console, get_renderable=self._line, refresh_per_second=REFRESHES_PER_SECOND)
            if self.console.is_terminal
            else None
        )

    def show(self, step: int, metrics: Mapping[str, Value]) -> None:
        """Shows one row. If the console can't be written, nothing is shown from then on."""
        self.step = step
        self.parts = _parts(metrics)
        self.left = self._time_left(step)
        try:
            self._show(metrics)
        except OSError:
            self.console.quiet = True
            self.live = None

    def _show(self, metrics: Mapping[str, Value]) -> None:
        scores = [f"{name[5:]} {compact(value)}" for name, value in metrics.items() if name.startswith("eval/")]
        if self.live:
            self._start(self.live)
            self.live.refresh()
        else:
            self.console.print(plain_text("  ".join(filter(None, [self._progress_text(), *self.parts, self.left]))))
        if scores:
            self.console.print(plain_text("  ".join([self._progress_text("eval"), *scores])))

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Shows on the live line what the block does, and for how many seconds so far."""
        self.doing = (what, time.monotonic())
        if self.live:
            self._start(self.live)
        try:
            yield
        finally:
            self.doing = None

    def close(self) -> None:
        """Stops the live line; its last state stays on the terminal."""
        if self.live:
            with contextlib.suppress(OSError):
                self.live.stop()

    def _start(self, live: Live) -> None:
        if not live.is_started:
            live.start()
            self.console.show_cursor(True)  # so that the cursor is visible however the process ends

    def _progress_text(self, kind: str = "step") -> str:
        return f"{kind} {self.step:>{len(str(self.num_steps))}}/{self.num_steps}"

    def _line(self) -> Text:
        doing = self.doing
        parts = [self._progress_text(), self.left, doing and f"{doing[0]} {time.monotonic() - doing[1]:.0f} s"]
        parts += [self._bar(), *self.parts]
        line = ""
        for part in filter(None, parts):
            longer = f"{line}  {part}" if line else part
            if len(longer) > self.console.width:
                break
            line = longer
        return plain_text(line, no_wrap=True, overflow="crop")

    def _bar(self) -> str:
        return f"[{'=' * (BAR * self.step // self.num_steps):<{BAR}}]"

    def _time_left(self, step: int) -> str:
        now = time.monotonic()
        if self.first is None:  # the first row includes compilation: timing starts here
            self.first = (step, now)
        if step == self.first[0]:
            return ""
        left = (self.num_steps - step) * (now - self.first[1]) / (step - self.first[0])
        return f"ETA {timedelta(seconds=round(left))}"


def _parts(metrics: Mapping[str, Value]) -> list[str]:
    """The fields of a row that the progress line shows, the most important first."""
    shown = {"train/loss": "loss", "train/lr": "lr"}
    if "perf/tokens_per_s" in metrics:
        shown["perf/tokens_per_s"] = "tokens/s"
    else:
        shown["perf/examples_per_s"] = "examples/s"
    parts = [f"{label} {compact(metrics[name])}" for name, label in shown.items() if name in metrics]
    if "perf/step_ms" in metrics:
        parts.append(f"{compact(metrics['perf/step_ms'])} ms/step")
    if "perf/data_wait" in metrics:
        parts.append(f"data wait {float(metrics['perf/data_wait']):.0%}")
    if "perf/mfu" in metrics:
        parts.append(f"MFU {float(metrics['perf/mfu']):.0%}")
    return parts


_announced: list[str] = []


def announce(message: str) -> None:
    """Logs a message, at the start of the log, once `setup_logging` has opened its file."""
    _announced.append(message)


def setup_logging(workdir: Path, process_index: int = 0, beside: Sequence[Path] = ()) -> None:
    """Sends the messages of "txjax" to `workdir/logs/process_N.log` and to stderr (only warnings where N > 0).

    DEBUG messages are written only to the file. The stderr handler replaces the one that `logging.basicConfig` gave to
    the root logger.

    Args:
      beside: workdirs of runs that train together with this one, which get the same file.
    """
    root = logging.getLogger()
    for owner, kinds in ((logger, (_File,)), (root, (logging.StreamHandler, _StderrHandler))):
        for handler in [h for h in owner.handlers if type(h) in kinds]:
            owner.removeHandler(handler)
            handler.close()
    logger.setLevel(logging.DEBUG)
    stderr = _StderrHandler(logging.WARNING if process_index else logging.INFO)
    stderr.setFormatter(Formatter())
    root.addHandler(stderr)
    for folder in (workdir, *beside):
        path = Path(folder) / "logs" / f"process_{process_index}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = _File(path, encoding="utf-8")
        except OSError as error:
            logger.warning(_NO_FILE, path, error.strerror)
            continue
        file.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(file)
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # Orbax's errors are raised when its save is awaited
    while _announced:
        logger.info(_announced.pop(0))


class _StderrHandler(logging.Handler):
    """Looks up sys.stderr at each message: the live line replaces it to print above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(self.format(record), file=sys.stderr)


_NO_FILE = "%s could not be written (%s); messages go only to stderr"


class _File(logging.FileHandler):
    """A log file that is closed, with one warning, when its disk fails."""

    def handleError(self, record: logging.LogRecord) -> None:
        logger.removeHandler(self)
        with contextlib.suppress(OSError):
            self.close()
        logger.warning(_NO_FILE, self.baseFilename, sys.exc_info()[1])
