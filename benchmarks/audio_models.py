"""The models of audio of the benchmarks, small ones, and the specs of their data."""

import dataclasses
from typing import Any

import jax

from txjax.data import Dataset
from txjax.models import Model
from txjax.models.audio.branchformer import Branchformer, ConvGatingMLP
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.audio.speech_transformer.published_styles import speech2text
from txjax.nn import Classes, LayerNorm, Learned, MeanPrefix, MeanTokens, NormedPool, patch_count
from txjax.nn.audio.sequence_subsampling import GatedSubsampling
from txjax.nn.audio.subsampling import ImageSubsampling, SeparableSubsampling
from txjax.objectives import Classification, NextToken
from txjax.types import spec

SIZES: dict[str, dict[str, Any]] = {
    "conformer": dict(frames=512, bins=80, kernel=31, classes=10, width=144, depth=4, heads=4, batch=8),
    "branchformer": dict(frames=512, bins=80, kernel=31, classes=10, width=192, depth=4, heads=3, batch=8),
    "ast": dict(frames=256, bins=128, patch=16, stride=10, classes=10, width=192, depth=6, heads=3, batch=8),
    "speech2text": dict(
        frames=512,
        bins=80,
        length=48,
        vocab=1024,
        channels=768,
        width=192,
        encoder_depth=4,
        depth=2,
        heads=3,
        batch=8,
    ),
}


def parts(name: str, size: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The model of this name in this size, its objective and its data: fields of an `Experiment`."""
    size = dict(size)
    frames, bins = size.pop("frames"), size.pop("bins")
    if name == "speech2text":
        data = SpokenTexts(frames, bins, size.pop("length"))
        encoder = {
            "depth": size.pop("encoder_depth"),
            "subsampling": GatedSubsampling(channels=size.pop("channels")),
            "dtype": dtype,
        }
        return {"model": speech2text(**size, encoder=encoder, dtype=dtype), "objective": NextToken(), "data": data}
    data = SpokenClasses(frames, bins, size.pop("classes"))
    return {"model": classifier(name, data, size, dtype), "objective": Classification(), "data": data}


def classifier(name: str, data: "SpokenClasses", size: dict[str, Any], dtype: str) -> Model:
    """A model with a head of classes."""
    width = size["width"]
    if name == "ast":
        counts = [patch_count(side, size["patch"], size["stride"]) for side in (data.bins, data.frames)]
        return SpectrogramTransformer(
            **size,
            image_size=(data.bins, data.frames),
            positions=Learned(max_length=2 + counts[0] * counts[1]),
            reads_padding=True,
            norm=LayerNorm(eps=1e-12),
            head=Classes(data.classes, NormedPool(MeanPrefix(), name="norm_head")),
            dtype=dtype,
        )
    kernel, head = size.pop("kernel"), Classes(data.classes, MeanTokens())
    if name == "branchformer":
        return Branchformer(
            **size,
            subsampling=ImageSubsampling(channels=width, zeros=0),
            mlp=ConvGatingMLP(kernel=kernel),
            scale_exponent=0.5,
            head=head,
            dtype=dtype,
        )
    subsampling = SeparableSubsampling(factor=4, channels=width)
    block = ConformerBlock(conv=ConvModule(kernel=kernel))
    return Conformer(**size, subsampling=subsampling, block=block, head=head, dtype=dtype)


@dataclasses.dataclass
class Frames(Dataset):
    """Features of audio, of which there is the spec alone.

    Attributes:
      frames, bins: of the features.
    """

    frames: int
    bins: int

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        features = {"features": spec((self.frames, self.bins), "float32"), "features_length": spec((), "int32")}
        return {"id": spec((), "int32")} | features


@dataclasses.dataclass
class SpokenClasses(Frames):
    """Features with a class.

    Attributes:
      classes: of the labels.
    """

    classes: int

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"weights": spec((), "float32"), "label": spec((), "int32")}


@dataclasses.dataclass
class SpokenTexts(Frames):
    """Features with the tokens of a text.

    Attributes:
      length: of the text, in tokens.
    """

    length: int

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        tokens = {key: spec((self.length,), "int32") for key in ("tokens", "targets", "segments")}
        return super().spec() | tokens | {"weights": spec((self.length,), "float32")}
