"""A classifier of images and of texts by one trunk."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.task_model import TaskModel
from txjax.models.transformer import Transformer
from txjax.nn import Embed, Encoded, Head, Init, Learned, Linear, Mask, Normal, Positions, StackInputs, patchify
from txjax.types import config_field


class SharedTrunk(TaskModel, Transformer, kw_only=True):
    """One stack of blocks for images and texts, with a head for each task (after UniT, Hu and Singh 2021).

    An image becomes its patches and a text its tokens, each with positions of their own; both go through the same
    blocks, as two calls, and the head of the task reads the features. (UniT has an encoder for each kind of input, and
    one decoder, with a query for each task, as the shared part.)

    Parameters: `patch_embed` and `image_positions`; `embed` and `positions`; `layers`, `norm_final`; under the name of
    each task, those of its head. Sows `features` [B D], the mean over all that is not padding.

    Attributes:
      vocab: size of the vocabulary, V.
      patch: side P of a patch in pixels.
      tasks: the head of each task, by name.
      positions: the position encoding of texts.
      image_positions: the position encoding added to patches.
    """

    takes_pixels: ClassVar[bool] = True

    vocab: int = config_field(at_least=1)
    patch: int = config_field(at_least=1)
    tasks: dict[str, Head] | Mapping[str, Head] = config_field()
    positions: Positions = dataclasses.field(default_factory=Learned)
    image_positions: Positions = dataclasses.field(default_factory=Learned)
    initial: Init = dataclasses.field(default_factory=Normal)

    @property
    def head(self) -> Head | None:
        """The head of the call's task; None if there is no such task."""
        return self.tasks.get(self.task or "")

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B H W C"] | None = None,
        tokens: Int[Array, "B L"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The output of the task's head.

        Args:
          image: the image, or
          tokens: the text; one of the two.
          segments: attention stays inside a segment; padding is 0. If None, no token is padding.
          types, languages: ignored: the two sentences of a pair are separated by tokens.
        """
        head = self.entry()
        if tokens is None:
            assert image is not None, "an image or tokens"
            patches = patchify(image, self.patch).astype(self.dtype)
            embed = Linear(
                (self.width,), ("embed",), in_axes=("pixels",), kernel_init=self.kernel_init, name="patch_embed"
            )
            positions = jnp.arange(patches.shape[1], dtype=jnp.int32)[None]
            x = self.image_positions.add(embed(patches), positions)
        else:
            positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
            x = self.positions.add(Embed(self.vocab, self.width, name="embed")(tokens, self.dtype), positions)
        x = self.end(self.layers(x, StackInputs(positions, positions, Mask.within(segments), train)), train)
        encoded = Encoded(x, segments)
        self.apply_head(encoded, None, train)
        return self.head_context(train).within(str(self.task), lambda context: head(encoded, context))
