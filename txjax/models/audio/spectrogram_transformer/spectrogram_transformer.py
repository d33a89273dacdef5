"""The Audio Spectrogram Transformer: a ViT of overlapping patches of a spectrogram."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.audio.audio_encoder import FrontEnd, with_features
from txjax.models.vision.vit.prefix_tokens import ClassToken, DistilledToken
from txjax.models.vision.vit.vit import PatchEncoder
from txjax.nn import Grid, Head, overlapping_patches, patch_count
from txjax.nn.audio.subsampling import zero_padding
from txjax.types import Batch, config_field


class SpectrogramTransformer(PatchEncoder, kw_only=True):
    """The Audio Spectrogram Transformer (Gong et al. 2021): features are an image of frequencies x times.

    Patches go from the lowest frequency to the highest, at each through all times. Frames that are padding are zeros,
    and no token attends to patches in which there is nothing else, unless `reads_padding`.

    Parameters: those of `PatchEncoder`, which a `ViT` can be initialised from, and of the head.

    Attributes:
      front_end: from waveforms to features, such as `audio_spectrogram()`. If None, the batch must have `features`.
      stride: bins, and frames, from one patch to the next.
      image_size: bins and frames. Shorter features are padded with zeros, so that a patch has one position in buckets
        of any length. If (), any size, and positions are those of the batch's grid.
      reads_padding: whether padding is a part of the input, as in the published models, whose front ends fill it
        (`FixedFrames`).
      head: from the encoder's features to the output. If None, the output is `Encoded`.
    """

    front_end: FrontEnd | None = None
    patch: int = config_field(16, at_least=1)
    stride: int = config_field(10, at_least=1)
    reads_padding: bool = False
    class_token: ClassToken | None = dataclasses.field(default_factory=DistilledToken)
    head: Head | None = None

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        return super().inputs(with_features(self.front_end, batch))

    @nn.nowrap
    def grid(self, height: int, width: int) -> Grid:
        """The order of the tokens of features of so many bins and frames, which are padded to `image_size`."""
        frames = max((width, *self.image_size[1:]))
        rows, columns = (patch_count(side, self.patch, self.stride) for side in (height, frames))
        return Grid(rows, columns, self.prefix())

    @nn.nowrap
    def grid_area(self, height: int, width: int) -> tuple[float, float, float, float]:
        """The first and the last bin, and the first and the last frame, of the grid of `stride` x `stride` cells that
        are in the middle of the patches."""
        grid = self.grid(height, width)
        margin = (self.patch - self.stride) / 2
        return margin, margin + grid.rows * self.stride, margin, margin + grid.columns * self.stride

    @nn.nowrap
    def encoded_positions(self, frames: int, bins: int) -> int:
        grid = self.grid(bins, frames)
        return grid.rows * grid.columns

    @nn.nowrap
    def cut(self, image: Float[Array, "B H W C"]) -> Float[Array, "B N pixels"]:
        return overlapping_patches(image, self.patch, self.stride)

    @nn.nowrap
    def padded(
        self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None
    ) -> tuple[Float[Array, "B F C"], Int[Array, "B"] | None]:
        """The features with zeros for padding and up to `image_size`, and the frames that are none (all if None)."""
        if self.reads_padding:
            return features, None
        missing = max((0, *(frames - features.shape[1] for frames in self.image_size[1:])))
        if missing and length is None:
            length = jnp.full(len(features), features.shape[1], jnp.int32)
        return jnp.pad(zero_padding(features, length), ((0, 0), (0, missing), (0, 0))), length

    @nn.nowrap
    def segments(self, length: Int[Array, "B"], grid: Grid) -> Int[Array, "B L"]:
        """1 for the tokens before the patches and for patches with one of so many frames, 0 for others."""
        starts = self.stride * jnp.arange(grid.columns, dtype=jnp.int32)
        patches = jnp.tile(starts[None] < length[:, None], (1, grid.rows))
        return jnp.pad(patches.astype(jnp.int32), ((0, 0), (grid.prefix, 0)), constant_values=1)

    @nn.compact
    def __call__(
        self, features: Float[Array, "B T C"], features_length: Int[Array, "B"] | None = None, train: bool = False
    ) -> Any:
        """The head's output. `features_length`: frames that are not padding. If None, all are.

        Raises:
          UserError: features of another size than `image_size`.
        """
        features, length = self.padded(features, features_length)
        if self.image_size and features.shape[:0:-1] != tuple(self.image_size):
            expected = "the features' bins and frames, or ()"
            got = f"{features.shape[2]} x {features.shape[1]}"
            raise UserError("config.model.image_size", expected, self.image_size, hint=got)
        image = features.swapaxes(1, 2)[..., None]
        segments = None if length is None else self.segments(length, self.grid(*image.shape[1:3]))
        return self.apply_head(self.encode(image, None, train, segments), self.head, train)
