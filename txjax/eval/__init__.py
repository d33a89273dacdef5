"""What is measured on the way, as config values; `docs/evaluation.md` tells how they work."""

from txjax.eval.evaluation import Evaluation
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.predictions import GLUE, Predictions

__all__ = ["GLUE", "Context", "Evaluate", "Evaluation", "Evaluator", "Predictions"]
