"""Branchformer: attention for global context and convolutions for local context, in two branches of each layer."""

import dataclasses

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.branchformer.branchformer_block import BranchformerBlock
from txjax.models.audio.branchformer.conv_gating_mlp import ConvGatingMLP
from txjax.nn import MLP, Block, LayerNorm, Mixer, Norm, Positions
from txjax.nn.attention.relative_attention import RelativeAttention, RelativeSinusoidal
from txjax.nn.audio.subsampling import ImageSubsampling, Subsampling


class Branchformer(AudioEncoder, kw_only=True):
    """The Branchformer (Peng et al. 2022): `mixer` and `mlp` are the two branches of a layer, which `block` merges.

    Branchformer(width=256, depth=24, heads=4, head=TokenClasses(4233))  # the paper's for Aishell, with a head for CTC

    ESPnet's model, which reads padding, has `reads_padding=True, subsampling=UnmaskedSubsampling()`.

    Parameters: those of `AudioEncoder`.
    """

    subsampling: Subsampling = dataclasses.field(default_factory=lambda: ImageSubsampling(zeros=0))
    positions: Positions = dataclasses.field(default_factory=RelativeSinusoidal)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=RelativeAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))
    mlp: MLP = dataclasses.field(default_factory=ConvGatingMLP)
    block: Block = dataclasses.field(default_factory=BranchformerBlock)
