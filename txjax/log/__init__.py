"""The metrics of a run: metrics.jsonl, trackers, the console. Nothing else writes metrics."""

from txjax.log.console import Progress, announce, setup_logging
from txjax.log.metrics import METRICS, Log, plain, read_metrics, rows_of, spare
from txjax.log.trackers import Curves, Row, Sink, TensorBoard, Tracker, Value, WandB

__all__ = [
    "METRICS",
    "Curves",
    "Log",
    "Progress",
    "Row",
    "Sink",
    "TensorBoard",
    "Tracker",
    "Value",
    "WandB",
    "announce",
    "plain",
    "read_metrics",
    "rows_of",
    "setup_logging",
    "spare",
]
