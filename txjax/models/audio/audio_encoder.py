"""The base of encoders of audio: a front end, a subsampling, and a stack of layers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.nn import Encoded, Head, Mask, StackInputs, set_model_fields
from txjax.nn.audio.framing import Count
from txjax.nn.audio.subsampling import ImageSubsampling, Subsampling, frame_mask
from txjax.nn.layers.linear import scale
from txjax.types import Batch, config_field

FrontEnd = Callable[[Float[Array, "B S"], Int[Array, "B"]], tuple[Float[Array, "B T C"], Int[Array, "B"]]]


class AudioEncoder(Transformer, kw_only=True):
    """An encoder of frames of features. Its tokens have one segment an example.

    What is padded is never read, so that an example's output is the same in every batch.

    Parameters: `stem`, `positions`, `layers`, `norm_final` and those of the head.

    Attributes:
      front_end: from waveforms to frames of features, such as `LogMel()`. It is computed in the step, and has no
        parameters. If None, the batch must have `features`.
      subsampling: from frames to tokens.
      scale_exponent: the tokens are multiplied by D^scale_exponent, of the parametrization's base if it has one. 0.5 is
        the factor of embeddings of Vaswani et al. (2017, 3.4), which NeMo has here.
      reads_padding: whether the layers see tokens of padding, as the subsampling gives them, as all others, but for
        the keys of attention. Only for models of others that do: outputs then depend on the longest example of a batch.
      head: from the encoder's features to the output. If None, the output is `Encoded`.
    """

    front_end: FrontEnd | None = None
    subsampling: Subsampling = dataclasses.field(default_factory=ImageSubsampling)
    scale_exponent: float = config_field(0.0, at_least=0, at_most=1)
    reads_padding: bool = False
    head: Head | None = None

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        return super().inputs(with_features(self.front_end, batch))

    @nn.nowrap
    def output_length(self, length: Count) -> Count:
        """The number of tokens of so many frames."""
        return self.subsampling.length(length)

    @nn.compact
    def __call__(
        self, features: Float[Array, "B T C"], features_length: Int[Array, "B"] | None = None, train: bool = False
    ) -> Any:
        """The head's output. `features_length`: frames that are not padding. If None, all are."""
        fields = {"width": self.width, "kernel_init": self.kernel_init}
        subsampling = set_model_fields(self.subsampling, "config.model.subsampling", **fields)
        x = subsampling.clone(parent=self, name="stem")(features.astype(self.dtype), features_length)
        positions = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        segments = None
        if features_length is not None:
            segments = frame_mask(self.output_length(features_length), x.shape[1]).astype(jnp.int32)
        mask = Mask.within(segments)
        if self.reads_padding and segments is not None:
            mask = Mask(query_segments=jnp.ones_like(segments), key_segments=segments)
        base_width = self.width / self.layer_scaling().width
        x = self.positions.add(scale(x, base_width**self.scale_exponent), positions)
        x = self.end(self.layers(x, StackInputs(positions, positions, mask, train)), train)
        return self.apply_head(Encoded(x, segments), self.head, train)


def with_features(front_end: FrontEnd | None, batch: Batch) -> Batch:
    """The batch with the features of its waveforms, if it has none and there is a front end."""
    if front_end is None or "features" in batch or "audio" not in batch:
        return batch
    features, length = front_end(batch["audio"], batch["audio_length"])
    return {**batch, "features": features, "features_length": length}
