"""Trackers.

Where the rows of a run are sent, besides metrics.jsonl.
"""

import txjax
from txjax.log import Curves, MLflow, TensorBoard, Trackio, WandB

experiment = txjax.load_config("txjax:text/gpt_tiny")
experiment.trackers = (
    TensorBoard(),
    Curves(),
    WandB(project="tiny", mode="offline"),
    MLflow(server="http://127.0.0.1:5000", experiment="tiny"),
    Trackio(project="tiny"),
)
print([type(tracker).__name__ for tracker in experiment.trackers])
# ['TensorBoard', 'Curves', 'WandB', 'MLflow', 'Trackio']
