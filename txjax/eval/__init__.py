"""Evaluators, which run during training, as config values; see `docs/evaluation.md`."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.eval.audio.error_rates import ErrorRates
    from txjax.eval.classification.calibration import Calibration
    from txjax.eval.classification.class_report import ClassReport
    from txjax.eval.classification.label_precision import LabelPrecision
    from txjax.eval.classification.predictions import GLUE, Predictions
    from txjax.eval.early_stopping import EarlyStopping
    from txjax.eval.evaluation import Evaluation
    from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator
    from txjax.eval.features.cross_retrieval import CrossRetrieval
    from txjax.eval.features.few_shot import FewShot
    from txjax.eval.features.image_text_retrieval import ImageTextRetrieval
    from txjax.eval.features.linear_probe import LinearProbe
    from txjax.eval.features.nearest_neighbours import NearestNeighbours
    from txjax.eval.features.retrieval import Retrieval
    from txjax.eval.features.zero_shot import ZeroShot
    from txjax.eval.harness.harness import Harness
    from txjax.eval.images.average_precision import AveragePrecision
    from txjax.eval.images.class_samples import ClassSamples
    from txjax.eval.images.clicked_masks import ClickedMasks
    from txjax.eval.images.codebook_usage import CodebookUsage
    from txjax.eval.images.detected_objects import DetectedObjects
    from txjax.eval.images.pixel_classifier import PixelClassifier
    from txjax.eval.images.reconstructions import Reconstructions
    from txjax.eval.multimodal.generated_answers import GeneratedAnswers
    from txjax.eval.multimodal.image_controls import BlankImages, ImageControl, ImagesOfOthers
    from txjax.eval.text.answer_likelihood import AnswerLikelihood
    from txjax.eval.text.answer_rules import Contextual, DomainPMI, Likeliest, PerByte, PerToken
    from txjax.eval.text.entities import Entities
    from txjax.eval.text.extracted_answers import ExtractedAnswers
    from txjax.eval.text.generated_texts import GeneratedTexts
    from txjax.eval.text.perplexity import Perplexity
    from txjax.eval.text.prompted import Prompted
    from txjax.eval.text.samples import Samples
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "AveragePrecision",
    "Calibration",
    "ClassReport",
    "EarlyStopping",
    "Entities",
    "ErrorRates",
    "Evaluation",
    "Evaluator",
    "FewShot",
    "GeneratedAnswers",
    "GeneratedTexts",
    "Harness",
    "ImageTextRetrieval",
    "LinearProbe",
    "NearestNeighbours",
    "Perplexity",
    "Predictions",
    "Prompted",
    "Reconstructions",
    "Retrieval",
    "Samples",
]
