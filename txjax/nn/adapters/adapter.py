"""The base of adapters: few trained parameters beside those of a model, which may be frozen."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.parametrization import Scaling
from txjax.types import UserError, config_field, near_misses

FIELD = "config.model.adapter"


@dataclasses.dataclass
class Adapter:
    """What is added to the outputs of some modules of a model, or done to their inputs.

    The parameters lie beside those of the module that is adapted, in a module called `name`:
    `layers/block/attention/query/lora/down/kernel`. They are created with the model's, so that sharding, optimizer
    groups, checkpoints and populations treat them as any others.

    Attributes:
      paths: a regular expression that matches the whole path of a module such as `layers/block/attention/query`. Every
        `Linear` can be adapted.
      name: of the module that has the parameters.
    """

    name: ClassVar[str]

    paths: str = config_field(".*")

    def matches(self, path: str) -> bool:
        """Whether the module at this path is adapted. Raises UserError for an invalid pattern."""
        try:
            return re.fullmatch(self.paths, path) is not None
        except re.error as error:
            hint = f"it is invalid: {error}"
            raise UserError(f"{FIELD}.paths", "a regular expression", self.paths, hint=hint) from None

    def enter(self, module: nn.Module, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The input of `module` in the place of x: of its shape and dtype."""
        return x

    def add(self, module: nn.Module, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The adapted output of `module`: the shape and dtype of its own output y for the input x.

        It is called inside the module, so that new modules are its children.
        """
        raise NotImplementedError

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        """The parameters of one adapted module without the adapter: its outputs are the adapted ones.

        Args:
          params: by path inside the module, the adapter's own too; stacked over layers or not.
          axes: their logical axes.

        Raises:
          UserError: the adapter is no change of the kernel.
        """
        raise UserError(FIELD, "an adapter that can be merged into kernels, such as LoRA", type(self).__name__)

    def check(self, offered: Iterable[str]) -> None:
        """Raises UserError if `paths` matches none of these paths."""
        offered = sorted(offered)
        if not any(map(self.matches, offered)):
            near = near_misses(re.sub(r"[^\w/]+", "", self.paths), offered) or offered[:3]
            raise UserError(f"{FIELD}.paths", "a pattern that matches the path of a module", self.paths, near)
