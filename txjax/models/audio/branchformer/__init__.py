"""Branchformer (Peng et al. 2022): attention and a convolutional MLP beside each other."""

from txjax.models.audio.branchformer.branch_merges import Concatenation, FixedAverage, LearnedAverage, Merge
from txjax.models.audio.branchformer.branchformer import Branchformer
from txjax.models.audio.branchformer.branchformer_block import BranchformerBlock
from txjax.models.audio.branchformer.conv_gating_mlp import ConvGatingMLP
from txjax.models.audio.branchformer.unmasked_subsampling import UnmaskedSubsampling

__all__ = [
    "Branchformer",
    "BranchformerBlock",
    "Concatenation",
    "ConvGatingMLP",
    "FixedAverage",
    "LearnedAverage",
    "Merge",
    "UnmaskedSubsampling",
]
