"""Objectives: pure functions from a model and a batch to losses and metrics, as sums and counts."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.objectives.base import (
        Objective,
        apply_model,
        example_keys,
        missing_keys,
        model_inputs,
        select_keys,
        source_inputs,
    )
    from txjax.objectives.classification import Classification, Regression
    from txjax.objectives.comparing import ComparingObjective, Others
    from txjax.objectives.contrastive import SigmoidContrastive, SoftmaxContrastive
    from txjax.objectives.ctc import CTC, ctc_loss
    from txjax.objectives.data_checks import check_model_data, languages_of
    from txjax.objectives.distillation import Distillation
    from txjax.objectives.joint_ctc import JointCTC
    from txjax.objectives.losses import CrossEntropy, correct, cross_entropy
    from txjax.objectives.masked_patch import MaskedPatch
    from txjax.objectives.masked_text_and_regions import MaskedTextAndRegions
    from txjax.objectives.masked_token import MaskedToken
    from txjax.objectives.masked_visual_tokens import MaskedVisualTokens
    from txjax.objectives.multi_task import MultiTask
    from txjax.objectives.multiple_choice import MultipleChoice
    from txjax.objectives.next_token import NextToken
    from txjax.objectives.patch_masks import BlockMask, GridMask, PatchMask, RandomMask
    from txjax.objectives.prompted_masks import PromptedMasks
    from txjax.objectives.region_targets import RegionClasses, RegionFeatures, RegionTarget
    from txjax.objectives.replaced_token import ReplacedToken
    from txjax.objectives.set_prediction import SetPrediction
    from txjax.objectives.sigmoid_cross_entropy import SigmoidCrossEntropy
    from txjax.objectives.span_corruption import SpanCorruption
    from txjax.objectives.spans import Spans
    from txjax.objectives.token_classification import TokenClassification
    from txjax.objectives.vq_reconstruction import VQReconstruction
    from txjax.objectives.with_next_token import WithNextToken
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "CTC",
    "Classification",
    "CrossEntropy",
    "Distillation",
    "JointCTC",
    "MaskedPatch",
    "MaskedToken",
    "MultiTask",
    "MultipleChoice",
    "NextToken",
    "Objective",
    "Regression",
    "ReplacedToken",
    "SetPrediction",
    "SigmoidContrastive",
    "SigmoidCrossEntropy",
    "SoftmaxContrastive",
    "SpanCorruption",
    "Spans",
    "TokenClassification",
    "WithNextToken",
    "apply_model",
]
