"""The logical axes of a parameter: a name for each dimension, and how many of them are inputs."""

from collections.abc import Iterable
from typing import Any

Names = tuple[str | None, ...]

STACKED = "layers"
KIND = "kind_"  # and a number: the layers of a period, in paths (`nn.PeriodicStack`)
DEPTHWISE = "group"  # the axis of the single input channel that a channel of a depthwise convolution has
COPIES = (STACKED, "experts")  # axes along which parameters of equal modules are stacked


class Axes(Names):
    """The logical names of a parameter's dimensions; for JAX a leaf of a tree.

    Attributes:
      inputs: how many dimensions are contracted with the input, or indexed by it: the first ones that are not copies.
        0 for vectors, such as biases and the scales of norms.
    """

    inputs: int

    def __new__(cls, names: Iterable[str | None] = (), inputs: int = 0) -> "Axes":
        self = super().__new__(cls, names)
        self.inputs = inputs
        return self

    @property
    def uncopied_dims(self) -> tuple[int, ...]:
        """The dimensions of one layer's, and one expert's, array."""
        return tuple(i for i, name in enumerate(self) if name not in COPIES)

    @property
    def inside(self) -> Names:
        """The names of the inputs."""
        return tuple(self[i] for i in self.uncopied_dims[: self.inputs])

    @property
    def outside(self) -> Names:
        """The names of the outputs."""
        return tuple(self[i] for i in self.uncopied_dims[self.inputs :])


def axes_of(parameter: Any) -> Axes:
    """The axes of a parameter as it is born: boxed with its names, or bare.

    One that doesn't state its inputs (of another library's module) has one output, the last dimension.
    """
    stated = getattr(parameter, "names", None)  # () for a scalar
    names = Axes((None,) * parameter.ndim if stated is None else stated)
    return Axes(names, getattr(parameter, "inputs", max(len(names.uncopied_dims) - 1, 0)))
