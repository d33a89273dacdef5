"""What a run shows while it runs: a progress line on the console, messages on stderr and in `workdir/logs`."""

import contextlib
import logging
import math
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from txjax.log.trackers import Value, logger


class Progress:
    """The run on the console: a live line on a terminal, one plain line a row anywhere else."""

    def __init__(self, num_steps: int, console: Console | None = None):
        self.num_steps = num_steps
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.first: tuple[int, float] | None = None
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None

    def show(self, step: int, metrics: Mapping[str, Value]) -> None:
        """Shows one row, unless the terminal is gone."""
        try:
            self._show(step, metrics)
        except OSError:
            self.console.quiet, self.live = True, None

    def _show(self, step: int, metrics: Mapping[str, Value]) -> None:
        at = f"{step:>{len(str(self.num_steps))}}/{self.num_steps}"
        line = Text("  ".join([f"step {at}", *self._parts(step, metrics)]))
        scores = [f"{name[5:]} {_short(value)}" for name, value in metrics.items() if name.startswith("eval/")]
        if self.live:
            line.truncate(self.console.width, overflow="ellipsis")
            self.live.start()  # at the first row only; a start that is followed by no close would hide the cursor
            self.live.update(line, refresh=True)
        else:
            self.console.print(line)
        if scores:
            self.console.print(Text("  ".join([f"eval {at}", *scores])))

    def close(self) -> None:
        """Leaves the last line standing."""
        if self.live:
            with contextlib.suppress(OSError):
                self.live.stop()

    def _parts(self, step: int, metrics: Mapping[str, Value]) -> list[str]:
        shown = {"train/loss": "loss", "train/lr": "lr"}
        if "perf/tokens_per_s" in metrics:
            shown["perf/tokens_per_s"] = "tokens/s"
        else:
            shown["perf/examples_per_s"] = "examples/s"
        parts = [f"{label} {_short(metrics[name])}" for name, label in shown.items() if name in metrics]
        if "perf/step_ms" in metrics:
            parts.append(f"{_short(metrics['perf/step_ms'])} ms/step")
        if "perf/data_wait" in metrics:
            parts.append(f"data wait {float(metrics['perf/data_wait']):.0%}")
        if "perf/mfu" in metrics:
            parts.append(f"MFU {float(metrics['perf/mfu']):.0%}")
        now = time.monotonic()
        if self.first is None:  # the first row paid for compiling: the clock starts here
            self.first = (step, now)
        elif step > self.first[0]:
            left = (self.num_steps - step) * (now - self.first[1]) / (step - self.first[0])
            parts.append(f"ETA {timedelta(seconds=round(left))}")
        return parts


def _short(value: Value) -> str:
    if isinstance(value, str):
        return value
    if math.isfinite(value) and abs(value) >= 10_000:
        return f"{value / 1e6:.1f}M" if abs(value) >= 1e6 else f"{value / 1e3:.0f}k"
    return f"{value:.4g}"


def setup_logging(workdir: Path, process_index: int = 0, beside: Sequence[Path] = ()) -> None:
    """Sends the messages of "txjax" to `workdir/logs/process_N.log` and to stderr (only warnings where N > 0).

    `beside` are workdirs of runs that train together with this one: they get the same file.

    Its stderr handler takes the place of the one that `logging.basicConfig` gave to the root logger.
    """
    root = logging.getLogger()
    for owner, kinds in ((logger, (_File,)), (root, (logging.StreamHandler, _StderrHandler))):
        for handler in [h for h in owner.handlers if type(h) in kinds]:
            owner.removeHandler(handler)
            handler.close()
    logger.setLevel(logging.INFO)
    root.addHandler(_StderrHandler(logging.WARNING if process_index else logging.INFO))
    for place in (workdir, *beside):
        path = Path(place) / "logs" / f"process_{process_index}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = _File(path, encoding="utf-8")
        except OSError as error:
            logger.warning(_NO_FILE, path, error.strerror)
            continue
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(file)
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # Orbax's errors are raised again where we wait for it


class _StderrHandler(logging.Handler):
    """Looks sys.stderr up at each message: the live line replaces it to print above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(self.format(record), file=sys.stderr)


_NO_FILE = "%s could not be written (%s); messages are on stderr alone"


class _File(logging.FileHandler):
    """A file that is given up, with one warning, when its disk fails."""

    def handleError(self, record: logging.LogRecord) -> None:
        logger.removeHandler(self)
        with contextlib.suppress(OSError):
            self.close()
        logger.warning(_NO_FILE, self.baseFilename, sys.exc_info()[1])
