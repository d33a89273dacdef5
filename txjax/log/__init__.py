"""The metrics of a run: metrics.jsonl, trackers, the console. Nothing else writes metrics."""

from txjax.log.console import Progress, announce, setup_logging
from txjax.log.metrics import METRICS, Log, backup_log, plain, read_metrics, rows_of
from txjax.log.trackers import Curves, Row, Sink, TensorBoard, Tracker, Value, WandB

__all__ = [
    "Curves",
    "TensorBoard",
    "Tracker",
    "WandB",
]
