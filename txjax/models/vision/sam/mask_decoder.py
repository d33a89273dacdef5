"""The decoder of SAM: from an image and the prompts of an object to masks and their expected quality."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.errors import UserError
from txjax.models.transformer import SubTransformer
from txjax.models.vision.sam.two_way import FirstTokens, TwoWay
from txjax.nn import (
    ACTIVATIONS,
    Block,
    CrossAttention,
    Embed,
    LayerContext,
    Mask,
    Memory,
    PostNorm,
    PostNormAttention,
    StackInputs,
    parameter,
)
from txjax.nn.conv.patch import unpatchify
from txjax.nn.layers.linear import Linear, align, scale
from txjax.nn.layers.three_layers import ThreeLayers
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Role

SHARED = ("mixer", "cross", "mlp", "norm", "dropout", "scaling", "drop_path", "layer_scale")  # fields of blocks


class Upsampling(nn.Module):
    """Each token becomes side x side tokens: a transposed convolution whose stride is its size.

    Parameters: `linear/kernel` [D side side E], `bias` [E].

    Attributes:
      width: E.
      side: of the square of tokens.
      kernel_init: see `Linear`.
    """

    width: int
    kernel_init: KernelInit
    side: int = 2

    @nn.compact
    def __call__(self, x: Float[Array, "B r c D"]) -> Float[Array, "B rows columns E"]:
        """The image of side times as many rows and columns."""
        batch, rows, columns, _ = x.shape
        features = self.side, self.side, self.width
        tokens = Linear(features, ("taps", "taps", "embed"), ("width",), False, self.kernel_init, name="linear")(x)
        tokens = tokens.reshape(batch, rows * columns, -1)
        y = unpatchify(tokens, self.side, self.side * rows, self.side * columns)
        return y + align(parameter(self, "bias", nn.initializers.zeros, (self.width,), ("embed",)), y)


class MaskDecoder(SubTransformer, kw_only=True):
    """A stack of `TwoWay` layers, and what reads it (Kirillov et al. 2023, A).

    Parameters: `iou_token` [D], `mask_tokens`, `layers`, `final`, `upscale_1`, `norm_upscale`, `upscale_2`,
    `mask_0`, `mask_1`, ..., `iou`.

    Attributes:
      masks: M, of an object.
      iou_hidden: the size of the hidden layers before the predicted IoUs.
      cross: between tokens and image.
      upscale_activation: of the finer images.
    """

    masks: int
    iou_hidden: int
    cross: CrossAttention
    upscale_activation: str

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B r c D"],
        prompts: Float[Array, "B P D"],
        prompt_mask: Bool[Array, "B P"],
        positions: Float[Array, "1 L D"],
        train: bool,
    ) -> tuple[Float[Array, "B M 4*r 4*c"], Float[Array, "B M"]]:
        """Logits of the masks and the predicted IoUs, float32.

        Args:
          prompt_mask: which prompts are attended to.
          positions: of the image's patches.
        """
        if self.width % 8:
            raise UserError("config.model.width", "a multiple of 8", self.width)
        batch, rows, columns, width = image.shape
        table = Embed(self.masks, width, axis="masks", name="mask_tokens")
        iou_token = parameter(self, "iou_token", nn.initializers.normal(table.std), (width,), ("embed",))
        output_tokens = jnp.concatenate([iou_token[None], table.embedding]).astype(image.dtype)
        repeated = jnp.broadcast_to(output_tokens, (batch, *output_tokens.shape))
        tokens = jnp.concatenate([repeated, prompts.astype(image.dtype)], 1)

        numbers = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        segments = jnp.pad(prompt_mask.astype(jnp.int32), ((0, 0), (len(output_tokens), 0)), constant_values=1)
        memory = Memory(added=positions)
        inputs = StackInputs(numbers, numbers, Mask.within(segments), train, memory, added=tokens)
        streams = tokens, image.reshape(batch, rows * columns, width)
        positions_of_tokens = tokens
        (tokens, patches) = self.layers(streams, inputs)
        context = LayerContext(memory=memory, train=train, added=positions_of_tokens).reading(patches)
        tokens = self.reader().clone(parent=self, name="final", _deep_clone=True)(tokens, context)

        activation = ACTIVATIONS[self.upscale_activation]
        fine = Upsampling(width // 4, kernel_init=self.kernel_init, name="upscale_1")(patches.reshape(image.shape))
        fine = activation(self.norm.clone(parent=self, name="norm_upscale").normalise(fine, train))
        fine = activation(Upsampling(width // 8, kernel_init=self.kernel_init, name="upscale_2")(fine))
        weights = [
            ThreeLayers(width, width // 8, "width", self.kernel_init, name=f"mask_{i}")(tokens[:, 1 + i])
            for i in range(self.masks)
        ]
        logits = jnp.einsum("bmd,brcd->bmrc", jnp.stack(weights, 1), fine, preferred_element_type=jnp.float32)
        ious = ThreeLayers(self.iou_hidden, self.masks, "masks", self.kernel_init, name="iou")(tokens[:, 0])
        return scale(logits, self.layer_scaling().multiplier(Role.OUTPUT)), ious.astype(jnp.float32)

    @nn.nowrap
    def blocks(self) -> Block | tuple[Block, ...]:
        """All layers, which are of two kinds: the first one's tokens have no residual."""
        tokens = self.half()
        image = self.reader()
        fields = {name: getattr(tokens, name) for name in SHARED}
        first = TwoWay(tokens=FirstTokens(**fields), image=image)
        return (first, *(TwoWay(tokens=tokens, image=image) for _ in range(self.depth - 1)))

    @nn.nowrap
    def half(self) -> Block:
        """The tokens' half of a layer."""
        block = super().blocks()
        if type(block) is not PostNorm:
            got = type(self.block).__name__ if isinstance(block, Block) else "several attentions"
            raise UserError("config.model.block", "PostNorm() with one attention", got)
        return block

    @nn.nowrap
    def reader(self) -> PostNormAttention:
        """A block that reads the other stream."""
        fields = {name: getattr(self.half(), name) for name in SHARED}
        return PostNormAttention(**fields | {"mixer": fields["cross"], "cross": None})
