"""The layer of a Branchformer: two branches of one input, which are merged."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.audio.branchformer.branch_merges import Branch, Concatenation, Merge
from txjax.nn import LayerContext, PostNorm, set_model_fields
from txjax.nn.stack.block import Layer


class BranchformerBlock(PostNorm):
    """norm(x + merge(mixer(norm(x)), mlp(norm(x)))), and a last norm behind all layers (Peng et al. 2022, figure 2).

    Parameters: `attention` (or `mixer`), `mlp`, a norm of each (`norm_attention`, `norm_mlp`), `merged`, and
    `norm_merged`.

    Attributes:
      merge: what makes one output of the two branches': `Concatenation()`, `LearnedAverage()` or `FixedAverage()`.
    """

    takes_prompts: ClassVar[bool] = False  # a convolution sees what is beside a token
    final_norm: ClassVar[bool] = True
    merge: Merge = dataclasses.field(default_factory=Concatenation)

    @property
    def branches(self) -> int:
        return 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        if self.cross is not None:
            raise UserError("config.model.block", "PreNorm() or PostNorm() with cross-attention", type(self).__name__)
        return {"merged": (self.merge_branches, context)}

    @nn.nowrap
    def merge_branches(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The output of the two branches of x, each of which has its norm and its dropout."""
        assert self.mlp and self.norm and self.dropout is not None
        drop = nn.Dropout(self.dropout, deterministic=not context.train)

        def branch(name: str, layer: Layer) -> Branch:
            assert self.norm
            norm = self.norm.clone(parent=self, name=f"norm_{name}")

            def compute() -> jax.Array:
                return drop(layer(norm.normalise(x, context.train), context))

            return compute

        branches = [branch(name, layer) for name, (layer, _) in super().layers(context).items()]
        fields = {"width": x.shape[-1], "kernel_init": self.mlp.kernel_init}
        merge = set_model_fields(self.merge, "config.model.block.merge", **fields).clone(parent=self, name="merged")
        return merge(*branches, context)
