"""Convolutions that make tokens of a waveform itself, without filters that are designed."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn.audio.feature_norms import FeatureNorm, UtteranceNorm
from txjax.nn.audio.framing import Count
from txjax.nn.audio.subsampling import Subsampling, conv_count, frame_mask, zero_padding
from txjax.nn.conv.conv import Conv
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.layers.norms import LayerNorm, Norm
from txjax.types import config_field


@dataclasses.dataclass
class WaveformSamples:
    """The front end of a model that reads samples: features [B T 1].

    Attributes:
      rate: samples a second of the audio.
      norm: of the samples of an utterance; the default is that of Wav2Vec2 (Baevski et al. 2020).
    """

    hop: ClassVar[int] = 1  # samples from one frame to the next

    rate: int = config_field(16_000, at_least=1)
    norm: FeatureNorm = config_field(factory=lambda: UtteranceNorm(variance_epsilon=1e-7))

    def __call__(
        self, audio: Float[Array, "B T"], audio_length: Int[Array, "B"]
    ) -> tuple[Float[Array, "B T 1"], Int[Array, "B"]]:
        """The normalised samples, 0 behind an utterance's end, and their number."""
        return self.norm(audio[..., None], frame_mask(audio_length, audio.shape[1])), audio_length

    def frames(self, length: Any) -> Any:
        """The frames of so many samples: as many."""
        return length


class WaveformConvs(Subsampling):
    """Convolutions without zeros at the edges, each with a norm and an activation; then a norm and a linear layer.

    As in Wav2Vec2 with layer norms (Baevski et al. 2020, 2). A token sees samples of its own utterance alone, since
    one whose window is not whole is none: those behind an utterance's end are zeros.

    Parameters: `conv_0`, ... [size in channels], `norm_0`, ..., `norm_out`, `out` [channels D].

    Attributes:
      channels, sizes, strides: of each convolution, one number each.
      use_bias: whether convolutions have biases.
      activation: after each norm.
      norm: of each convolution's outputs and of the last ones, a template.
    """

    channels: tuple[int, ...] = (512,) * 7
    sizes: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    strides: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    use_bias: bool = True
    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))

    @nn.nowrap
    def length(self, frames: Count) -> Count:
        for size, stride in zip(self.sizes, self.strides, strict=True):
            frames = conv_count(frames, size, stride)
        return frames

    @nn.nowrap
    def window(self) -> int:
        """The samples that a token sees."""
        window = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            window = (window - 1) * stride + size
        return window

    @nn.compact
    def __call__(self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B L D"]:
        """Raises UserError for samples that are no token, or different numbers of channels, sizes and strides."""
        assert self.width and self.kernel_init
        numbers = len(self.channels), len(self.sizes), len(self.strides)
        if len(set(numbers)) > 1:
            raise UserError("config.model.subsampling", "as many channels as sizes and strides", numbers)
        if features.shape[1] < self.window():
            expected = f"at least {self.window()} samples for config.model.subsampling"
            raise UserError("config.data", expected, features.shape[1])
        x = features
        for i, (channels, size, stride) in enumerate(zip(self.channels, self.sizes, self.strides, strict=True)):
            shape: dict[str, Any] = {"size": (size,), "strides": (stride,), "padding": "VALID"}
            fields: dict[str, Any] = {"use_bias": self.use_bias, "kernel_init": self.kernel_init}
            x = Conv((channels,), ("channels",), "channels", **shape, **fields, name=f"conv_{i}")(x)
            x = ACTIVATIONS[self.activation](self.normed(f"norm_{i}", x))
        linear = Linear((self.width,), ("embed",), ("channels",), kernel_init=self.kernel_init, name="out")
        return zero_padding(linear(self.normed("norm_out", x)), None if length is None else self.length(length))

    @nn.nowrap
    def normed(self, name: str, x: Float[Array, "B L C"]) -> Float[Array, "B L C"]:
        """The norm of this name."""
        return self.norm.clone(parent=self, name=name)(x, "channels")
