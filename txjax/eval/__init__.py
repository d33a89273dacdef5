"""Evaluators, which run during training, as config values; see `docs/evaluation.md`."""

from txjax.eval.attention_maps import attention_maps
from txjax.eval.entities import Entities
from txjax.eval.evaluation import Evaluation
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.extracted_answers import ExtractedAnswers
from txjax.eval.few_shot import FewShot
from txjax.eval.generated_texts import GeneratedTexts
from txjax.eval.linear_probe import LinearProbe
from txjax.eval.nearest_neighbours import NearestNeighbours
from txjax.eval.perplexity import Perplexity
from txjax.eval.predictions import GLUE, Predictions
from txjax.eval.reconstructions import Reconstructions
from txjax.eval.retrieval import Retrieval
from txjax.eval.samples import Samples

__all__ = [
    "GLUE",
    "Context",
    "Entities",
    "Evaluate",
    "Evaluation",
    "Evaluator",
    "ExtractedAnswers",
    "FewShot",
    "GeneratedTexts",
    "LinearProbe",
    "NearestNeighbours",
    "Perplexity",
    "Predictions",
    "Reconstructions",
    "Retrieval",
    "Samples",
    "attention_maps",
]
