"""The metrics of a run: metrics.jsonl, trackers, the console. Nothing else writes metrics."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.log.console import Progress, announce, setup_logging
    from txjax.log.metrics import METRICS, Log, backup_log, plain, read_metrics, rows_of
    from txjax.log.trackers.mlflow_tracker import MLflow
    from txjax.log.trackers.tensor_board import TensorBoard
    from txjax.log.trackers.tracker import Curves, Row, Sink, Tracker, Value
    from txjax.log.trackers.trackio_tracker import Trackio
    from txjax.log.trackers.wandb_tracker import WandB
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "Curves",
    "MLflow",
    "TensorBoard",
    "Tracker",
    "Trackio",
    "WandB",
]
