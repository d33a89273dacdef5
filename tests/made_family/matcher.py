"""A family that the package does not have: does a caption name the digit of an image?

Two towers (a convolutional one of images, a BERT of captions), and a recurrent stack over the caption's tokens whose
layers attend to the image's places.
"""

import dataclasses
import hashlib
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.data import Bytes, Dataset, Images
from txjax.models import Model, Transformer
from txjax.models.text.bert import Bert
from txjax.nn import (
    Attention,
    BatchNorm,
    Classes,
    Conv,
    CrossAttention,
    Encoded,
    Grid,
    Head,
    LastToken,
    LayerContext,
    Linear,
    Mask,
    Memory,
    Mixer,
    PreNorm,
    StackInputs,
    set_model_fields,
)
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling
from txjax.types import config_field, spec


class Glimpses(Model, kw_only=True):
    """Two convolutions with batch normalization; the places of the last one are the features.

    Parameters: `stem`, `norm_stem`, `conv`, `norm_conv`.
    """

    width: int = config_field(at_least=1)
    norm: BatchNorm = dataclasses.field(default_factory=BatchNorm)

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"], train: bool = False) -> Encoded:
        drawn: dict[str, Any] = {"kernel_init": self.kernel_init, "use_bias": False}
        x = image.astype(self.dtype)
        for name, fields in {"stem": {"in_axis": "pixels"}, "conv": {"strides": (2, 2)}}.items():
            x = Conv((self.width,), **fields, **drawn, name=name)(x)
            x = nn.relu(self.norm.clone(parent=self, name=f"norm_{name}")(x, train))
        features = x.reshape(len(x), -1, self.width)
        return self.apply_head(Encoded(features, grid=Grid(*x.shape[1:3], 0)), None, train)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        return self.parametrization.scaling(self.width, 1, 1)


class Cell(nn.Module):
    """A step of a gated recurrent unit (Cho et al. 2014), its reset gate after the product. Parameters: `recurrent`."""

    kernel_init: KernelInit

    @nn.compact
    def __call__(
        self, state: Float[Array, "B D"], given: tuple[Float[Array, "B 3 D"], Float[Array, "B 1"]]
    ) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        x, real = given
        size, drawn = (3, state.shape[-1]), {"kernel_init": self.kernel_init}
        h = Linear(size, ("gates", "width"), ("width",), **drawn, name="recurrent")(state)
        reset, keep = nn.sigmoid(x[:, 0] + h[:, 0]), nn.sigmoid(x[:, 1] + h[:, 1])
        new = keep * state + (1 - keep) * jnp.tanh(x[:, 2] + reset * h[:, 2])
        state = state + real * (new - state)  # padding changes nothing
        return state, state


class GRU(Mixer):
    """A gated recurrent unit over the positions. Parameters: `given`, `cell/recurrent`, `out`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        assert self.kernel_init
        width, drawn = x.shape[-1], {"kernel_init": self.kernel_init}
        given = Linear((3, width), ("gates", "width"), **drawn, name="given")(x)
        real = jnp.ones(x.shape[:2], bool) if context.token_mask is None else context.token_mask
        over = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)
        inputs = given, real[..., None].astype(x.dtype)
        _, states = over(**drawn, name="cell")(jnp.zeros_like(x[:, 0]), inputs)
        return Linear((width,), ("embed",), ("width",), **drawn, scale=self.kernel_init.residual_scale, name="out")(
            states
        )


class WithAttention(PreNorm):
    """A layer with self-attention before its other branches. Parameters: `before`, `norm_before`, those of a layer.

    Attributes:
      first: a template of that branch.
    """

    first: Mixer = dataclasses.field(default_factory=Attention)

    @property
    def branches(self) -> int:
        return super().branches + 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[nn.Module, LayerContext]]:
        assert self.mixer
        names = "heads", "kv_heads", "kernel_init"
        own = {name: getattr(self.mixer, name) for name in names}
        attend = set_model_fields(self.first, "config.model.block.first", **own).clone(parent=self, name="before")
        return {"before": (attend, context)} | super().layers(context)


class Matcher(Transformer, kw_only=True):
    """Reads a caption beside an image. Parameters: `image`, `text`, `from_text`, `layers`, `norm_final`, the head's.

    Attributes:
      image: the tower of images.
      text: the tower of captions, with `head=None`.
      mixer: what mixes the caption's positions.
      cross: attention of the caption's tokens to the image's places.
      head: from the caption's tokens to the output.
    """

    image: Glimpses
    text: Bert
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=GRU)
    cross: CrossAttention = dataclasses.field(default_factory=CrossAttention)
    head: Head | None = dataclasses.field(default_factory=lambda: Classes(2, LastToken()))

    @nn.nowrap
    def cross_attention(self) -> CrossAttention:
        return self.cross.clone(parent=None, name=None)

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B H W C"],
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        seen = self.image(image, train=train)
        text = self.text(tokens, segments, train=train)
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        x = Linear((self.width,), ("embed",), ("width",), kernel_init=self.kernel_init, name="from_text")(text.features)
        inputs = StackInputs(positions, positions, Mask.within(segments), train, Memory(seen.features))
        x = self.end(self.layers(x, inputs), train)
        return self.apply_head(Encoded(x, segments), self.head, train)


NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclasses.dataclass
class Captioned(Dataset):
    """Digits with captions: every second one names another digit. `label` is 1 if it names the image's.

    Attributes:
      images: the digits.
      length: of a caption, in bytes.
    """

    images: Images
    length: int = config_field(8, at_least=5)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return self.images.spec() | {key: spec((self.length,), "int32") for key in ("tokens", "segments")}

    def vocab(self) -> int:
        return Bytes().vocab()

    def check(self) -> None:
        self.images.check()

    def open(self) -> Any:
        return Captions(self)


class Captions:
    """The source of `Captioned`."""

    def __init__(self, data: Captioned):
        self._images, self._length = data.images.open(), data.length
        self.fingerprint = hashlib.blake2b(f"{self._images.fingerprint} {data.length}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._images)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        found = dict(self._images.example(index, epoch, rng))
        match = index % 2
        named = (int(found["label"]) + (0 if match else 1 + int(rng.integers(9)))) % 10
        text = Bytes().encode(NAMES[named]).astype(np.int32)
        padding = (0, self._length - len(text))
        found["tokens"] = np.pad(text, padding)
        found["segments"] = np.pad(np.ones(len(text), np.int32), padding)
        return found | {"label": np.array(match, np.int32)}
