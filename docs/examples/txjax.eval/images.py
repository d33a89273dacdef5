"""Classifiers and their features.

Two updates only: the run shows what is scored, not how well.
"""

import txjax
from txjax.data import Images
from txjax.eval import (
    Calibration,
    ClassReport,
    EarlyStopping,
    Evaluation,
    FewShot,
    LinearProbe,
    NearestNeighbours,
    Predictions,
)

experiment = txjax.load_config("txjax:vision/vit_digits", {"batch_size": 16, "trackers": ()})
test = dict(data=Images(split="test"), every_steps=100, max_batches=2)
experiment.evals = {
    "test": Evaluation(**test),
    "predicted": Predictions(**test, metrics=("accuracy", "f1_macro")),
    "calibration": Calibration(**test, bins=10),
    "classes": ClassReport(**test),
    "probe": LinearProbe(**test, max_train=200, max_iterations=5000),
    "neighbours": NearestNeighbours(**test, max_train=200, k=10),
    "few_shot": FewShot(**test, max_train=200, shots=(1, 5)),
}
experiment.checkpoint.best = "eval/test/accuracy"
experiment.stop = EarlyStopping("eval/test/accuracy", patience=5, mode="max")
scores = txjax.fit(experiment, "runs/digits", until=2).evaluate()
for name in experiment.evals:
    print(name, [score.rpartition("/")[2] for score in sorted(scores) if score.startswith(f"eval/{name}/")])
# test ['accuracy', 'loss']
# predicted ['accuracy', 'f1_macro']
# calibration ['brier', 'ece', 'nll']
# classes ['accuracy', 'f1_macro']
# probe ['accuracy', 'train_accuracy']
# neighbours ['accuracy']
# few_shot ['accuracy_1', 'accuracy_5']
