"""Conformer: attention and convolutions, from speech to text."""

import dataclasses

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.conformer.conformer_block import ConformerBlock
from txjax.nn import MLP, Block, LayerNorm, Mixer, Norm, Positions
from txjax.nn.attention.relative_attention import RelativeAttention, RelativeSinusoidal


class Conformer(AudioEncoder, kw_only=True):
    """The Conformer (Gulati et al. 2020), with the relative positions of Transformer-XL.

    Conformer(width=256, depth=16, heads=4, head=TokenClasses(129))  # the paper's M with a head for CTC

    Rotary positions are `mixer=Attention(), positions=Rotary()`. In training the batch's statistics are used:
    `block.conv.norm.group` for microbatches, or another norm there.

    Parameters: those of `AudioEncoder`.
    """

    positions: Positions = dataclasses.field(default_factory=RelativeSinusoidal)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=RelativeAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="silu"))
    block: Block = dataclasses.field(default_factory=ConformerBlock)
