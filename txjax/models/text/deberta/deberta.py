"""DeBERTa: a BERT with disentangled attention, and its enhanced mask decoder."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.text.bert.bert import Bert
from txjax.models.text.deberta.apply_again import apply_again
from txjax.models.text.deberta.disentangled_attention import DisentangledAttention
from txjax.models.text.deberta.relative_embeddings import RelativeEmbeddings
from txjax.nn import LayerNorm, Learned, Memory, Mixer, Norm, Positions, StackInputs, quantized
from txjax.types import config_field


@dataclasses.dataclass
class MaskDecoder:
    """The enhanced mask decoder (He et al. 2021, 3.2): masked tokens are predicted with absolute positions.

    The last layer is applied `steps` times, as in the authors' code: its queries are at first the output of the layer
    before it and the absolute positions, then its own output; its keys and values are the output of the layer before.

    Attributes:
      steps: passes through the last layer.
      positions: the absolute positions that are added.
    """

    steps: int = config_field(2, at_least=1)
    positions: Positions = dataclasses.field(default_factory=Learned)


class Deberta(Bert, kw_only=True):
    """DeBERTa (He et al. 2021): its tokens have no positions; attention reads the distance between them.

    Parameters: as in `Bert`, without `embed_types`, and `positions_absolute` of the decoder.

    Attributes:
      mask_decoder: between the layers and the head, for the prediction of masked tokens. If None, the head reads the
        output of the last layer, as the heads of other tasks do.
    """

    types: int | None = config_field(None, at_least=1)
    positions: Positions = dataclasses.field(default_factory=RelativeEmbeddings)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(
        default_factory=lambda: DisentangledAttention(biases=("query", "value", "out"))
    )
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-7))
    mask_decoder: MaskDecoder | None = None

    def layers(self, x: Float[Array, "B L D"], inputs: StackInputs) -> Float[Array, "B L D"]:
        if self.mask_decoder is None:
            return super().layers(x, inputs)
        (x, context) = self.begin(x, inputs)
        stack = self.built_stack()
        prompt = inputs.mask.prefix
        with quantized(self.quantize):
            _, streams = stack(x, context, every=True)
            before = streams[-2] if self.depth > 1 else x
            positions = self.mask_decoder.positions.clone(parent=self, name="positions_absolute")
            try:
                x = positions.add(before[:, prompt:], inputs.positions[:, prompt:])
            except UserError as error:
                raise error.with_path("config.model.mask_decoder.positions", "config.model.positions") from None
            x = jnp.concatenate([before[:, :prompt], x], axis=1)
            reading = dataclasses.replace(context, memory=Memory(before))
            for _ in range(self.mask_decoder.steps):
                x = apply_again(stack, -1, x, reading)
        return x


def deberta_v3(*, vocab: int, width: int, depth: int, heads: int, **fields: Any) -> Deberta:
    """A model as in DeBERTa v3 (He et al. 2023): logarithmic buckets of distances, projected as the tokens are."""
    style: dict[str, Any] = dict(
        positions=RelativeEmbeddings(buckets=256, norm=LayerNorm(eps=1e-7)),
        mixer=DisentangledAttention(positions="content"),
    )
    return Deberta(vocab=vocab, width=width, depth=depth, heads=heads, **style | fields)
