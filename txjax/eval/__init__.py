"""Evaluators, which run during training, as config values; see `docs/evaluation.md`."""

from txjax.eval.answer_likelihood import AnswerLikelihood
from txjax.eval.answer_rules import Contextual, DomainPMI, Likeliest, PerByte, PerToken
from txjax.eval.attention_maps import attention_maps
from txjax.eval.average_precision import AveragePrecision
from txjax.eval.calibration import Calibration
from txjax.eval.class_report import ClassReport
from txjax.eval.class_samples import ClassSamples
from txjax.eval.clicked_masks import ClickedMasks
from txjax.eval.codebook_usage import CodebookUsage
from txjax.eval.detected_objects import DetectedObjects
from txjax.eval.early_stopping import EarlyStopping
from txjax.eval.entities import Entities
from txjax.eval.evaluation import Evaluation
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.extracted_answers import ExtractedAnswers
from txjax.eval.few_shot import FewShot
from txjax.eval.generated_texts import GeneratedTexts
from txjax.eval.harness import Harness
from txjax.eval.linear_probe import LinearProbe
from txjax.eval.nearest_neighbours import NearestNeighbours
from txjax.eval.perplexity import Perplexity
from txjax.eval.pixel_classifier import PixelClassifier
from txjax.eval.predictions import GLUE, Predictions
from txjax.eval.prompted import Prompted
from txjax.eval.reconstructions import Reconstructions
from txjax.eval.retrieval import Retrieval
from txjax.eval.samples import Samples

__all__ = [
    "GLUE",
    "AnswerLikelihood",
    "AveragePrecision",
    "Calibration",
    "ClassReport",
    "DetectedObjects",
    "ClassSamples",
    "CodebookUsage",
    "ClickedMasks",
    "Context",
    "Contextual",
    "DomainPMI",
    "EarlyStopping",
    "Entities",
    "Evaluate",
    "Evaluation",
    "Evaluator",
    "ExtractedAnswers",
    "FewShot",
    "GeneratedTexts",
    "Harness",
    "Likeliest",
    "LinearProbe",
    "NearestNeighbours",
    "PerByte",
    "PerToken",
    "Perplexity",
    "PixelClassifier",
    "Predictions",
    "Prompted",
    "Reconstructions",
    "Retrieval",
    "Samples",
    "attention_maps",
]
