"""Evaluators, which run during training, as config values; see `docs/evaluation.md`."""

from txjax.eval.answer_likelihood import AnswerLikelihood
from txjax.eval.attention_maps import attention_maps
from txjax.eval.average_precision import AveragePrecision
from txjax.eval.class_samples import ClassSamples
from txjax.eval.clicked_masks import ClickedMasks
from txjax.eval.codebook_usage import CodebookUsage
from txjax.eval.detected_objects import DetectedObjects
from txjax.eval.entities import Entities
from txjax.eval.evaluation import Evaluation
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.extracted_answers import ExtractedAnswers
from txjax.eval.few_shot import FewShot
from txjax.eval.generated_texts import GeneratedTexts
from txjax.eval.linear_probe import LinearProbe
from txjax.eval.nearest_neighbours import NearestNeighbours
from txjax.eval.perplexity import Perplexity
from txjax.eval.pixel_classifier import PixelClassifier
from txjax.eval.predictions import GLUE, Predictions
from txjax.eval.reconstructions import Reconstructions
from txjax.eval.retrieval import Retrieval
from txjax.eval.samples import Samples

__all__ = [
    "GLUE",
    "AnswerLikelihood",
    "AveragePrecision",
    "DetectedObjects",
    "ClassSamples",
    "CodebookUsage",
    "ClickedMasks",
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
    "PixelClassifier",
    "Predictions",
    "Reconstructions",
    "Retrieval",
    "Samples",
    "attention_maps",
]
