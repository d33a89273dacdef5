"""The base of adapters: few trained parameters beside those of a model, which may be frozen."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.errors import UserError, near_misses
from txjax.parametrization import Scaling
from txjax.patterns import matches_path
from txjax.types import config_field

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
      of: the modules that `paths` chooses from: every "linear", every "attention", every "stack" of layers, or every
        module that an "image" enters.
      first_position: of the text of a causal model.
    """

    name: ClassVar[str]
    of: ClassVar[str] = "linear"
    first_position: ClassVar[int] = 0

    paths: str = config_field(".*")

    @property
    def trained(self) -> str:
        """A regular expression that matches the whole paths of its parameters (`optim.train_adapter`)."""
        return rf"(.*/)?{self.name}/.*"

    def matches(self, path: str) -> bool:
        """Whether the module at this path is adapted. Raises UserError for an invalid pattern."""
        return matches_path(self.paths, path, f"{FIELD}.paths")

    def enter(self, module: nn.Module, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The input of `module` in the place of x: of its shape and dtype, or with the adapter's tokens before it."""
        return x

    def add(self, module: nn.Module, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The adapted output of `module`: the shape and dtype of its own output y for the input x.

        It is called inside the module, so that new modules are its children.
        """
        raise NotImplementedError

    def tokens(self) -> int:
        """How many tokens are added before those of a stack's input."""
        return 0

    def replace(self, module: nn.Module, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """The input of a layer in a stack whose first tokens are the adapter's."""
        return x

    def share(self, module: nn.Module) -> Float[Array, "1 n M"] | None:
        """What a stack computes once for all of its layers, with a first dimension of 1. If None, nothing."""
        return None

    def attend(
        self,
        module: nn.Module,
        query: Float[Array, "B L H K"],
        y: Float[Array, "B L H K"],
        normaliser: Float[Array, "B H L"],
        shared: Float[Array, "1 n M"] | None,
    ) -> Float[Array, "B L H K"]:
        """The adapted output of attention.

        Args:
          y: the attention's own output.
          normaliser: the logarithm of the sum of the exponentials of its scores, float32.
          shared: what `share` returned.
        """
        return y

    def merge(
        self, params: dict[str, Any], axes: Mapping[str, Axes], scaling: Callable[[str], Scaling | None]
    ) -> tuple["Adapter | None", dict[str, Any]]:
        """What is left of the adapter, and the parameters of the model with it; its outputs are the adapted ones.

        Args:
          params: the adapted model's, by path.
          axes: their logical axes.
          scaling: of a parameter by its path.

        Raises:
          UserError: an adapter that is no change of kernels.
        """
        flat = dict(params)
        step = f"{self.name}/"
        for module in {path.partition(step)[0].rstrip("/") for path in flat if f"/{step}" in f"/{path}"}:
            inside = [path.removeprefix(f"{module}/") for path in flat if path.startswith(f"{module}/")]
            new = self.merged(
                {path: flat.pop(f"{module}/{path}") for path in inside},
                {path: axes[f"{module}/{path}"] for path in inside},
                scaling(module) or Scaling(),
            )
            flat |= {f"{module}/{path}": x for path, x in new.items()}
        return None, flat

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        """The parameters of one adapted module without the adapter: its outputs are the adapted ones.

        Args:
          params: by path inside the module, the adapter's own too; stacked over layers or not.
          axes: their logical axes.

        Raises:
          UserError: the adapter is no change of the kernel.
        """
        raise UserError(FIELD, "an adapter that can be merged into kernels, such as LoRA", type(self).__name__)

    def check(self, offered: Iterable[str], params: Iterable[str]) -> None:
        """Raises UserError if nothing is adapted.

        Args:
          offered: the paths of all modules of the model that can be adapted.
          params: the paths of its parameters.
        """
        offered = sorted(offered)
        if not any(map(self.matches, offered)):
            named = [path for path in offered if path]
            near = near_misses(re.sub(r"[^\w/]+", "", self.paths), named) or named[:3]
            raise UserError(f"{FIELD}.paths", "a pattern that matches the path of a module", self.paths, near)
