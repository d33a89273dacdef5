"""The base of all models: what does not depend on how a model is built."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
from flax.core import meta

from txjax.data.keys import read_modalities
from txjax.nn import Encoded, FirstToken, Head, HeadContext, Heads, Init, KernelInit, MeanTokens, Pool, begin_call
from txjax.nn.adapters import Adapter
from txjax.nn.adapters.interceptor import adapter_applied
from txjax.nn.layers.stored_kernels import storing
from txjax.nn.parameters.active_adapter import check_adapted, check_inner_models
from txjax.nn.parameters.quantized_kernels import QuantizedKernels
from txjax.parametrization import Parametrization, Scaling, Standard
from txjax.tree import config_fields
from txjax.types import Batch, config_field, flat_paths


class Model(nn.Module, kw_only=True):
    """The fields of every model.

    Attributes:
      initial: the initialiser of kernels, at the parametrization's base size if it has one.
      parametrization: how other numbers scale with the sizes: not at all (`Standard`), or so that a learning rate
        transfers to any width (`MuP`) and depth (`DepthMuP`, `CompleteP`).
      dtype: of the activations. Parameters are float32; norms, softmax and the model's output are computed in float32.
      adapter: few parameters added to the model's modules (`LoRA`, `IA3`, `Prefix`, `Prompt`), for fine-tuning. If
        None, there are none.
      storage: how frozen kernels of the layers are stored, in eight or four bits. If None, as float32 like all others.
    """

    initial: Init = dataclasses.field(default_factory=Init)
    parametrization: Parametrization = dataclasses.field(default_factory=Standard)
    dtype: str = config_field("float32", choices=("float32", "bfloat16"))
    adapter: Adapter | None = None
    storage: QuantizedKernels | None = None

    @nn.nowrap
    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Flax's `apply`, with the adapter: a model inside a model is not applied, so only the whole model's counts."""
        if self.adapter is None:
            return super().apply(*args, **kwargs)
        with adapter_applied(self.adapter):
            return super().apply(*args, **kwargs)

    @nn.nowrap
    def init_with_output(self, *args: Any, **kwargs: Any) -> Any:
        """Flax's, with the adapter, and with kernels as they are stored.

        Raises:
          UserError: an adapter or a storage that matches no module, or one of a model inside this one.
        """
        check_inner_models(self)
        begin_call()
        with adapter_applied(self.adapter) as offered, storing(self.storage):
            output = super().init_with_output(*args, **kwargs)
        if self.adapter is not None:
            params = flat_paths(output[1].get("params", {}), is_leaf=lambda x: isinstance(x, meta.AxisMetadata))
            check_adapted(self.adapter.check, offered, params)
        return output

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        """What the model reads of a batch: the arguments of its call, besides `train`."""
        return read_modalities(type(self).__call__, batch)

    @nn.nowrap
    def encoded_positions(self, frames: int, bins: int) -> int:
        """How many positions of its encoders read features of so many frames and bins; 0 if it reads none."""
        return sum(inner.encoded_positions(frames, bins) for _, inner in models_inside(self))

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model."""
        return HeadContext(module=self, kernel_init=self.kernel_init, train=train)

    @nn.nowrap
    def apply_head(self, encoded: Encoded, head: Head | None, train: bool, pool: Pool | None = None) -> Any:
        """The head's output; its parameters are the model's. If `head` is None, `encoded`, for a model around this one.

        Sows `features` [B D] in the collection "intermediates": the input of a classifier; with other heads, those of
        `pool`.

        Args:
          pool: If None, the class token of an image that has one, else `MeanTokens()`.
        """
        context = self.head_context(train)
        context.sow_features((pool or (FirstToken() if encoded.prefix else MeanTokens()))(encoded, context))
        return encoded if head is None else head(encoded, context)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the model's sizes, for the optimizer; None if learning rates don't depend on them."""
        return None

    @nn.nowrap
    def scalings(self) -> dict[str, Scaling | None]:
        """The scalings by prefix of the parameters' paths: the model's own, and those of fields that are models."""
        scalings = {"": self.scaling()}
        for name, inner in models_inside(self):
            scalings |= {f"{name}/{prefix}".rstrip("/"): scaling for prefix, scaling in inner.scalings().items()}
        return scalings

    @nn.nowrap
    def layer_scaling(self) -> Scaling:
        """The scaling by the model's sizes, for its layers: the identity if nothing depends on them."""
        return self.scaling() or Scaling()

    @property
    def kernel_init(self) -> KernelInit:
        """How kernels are drawn that are not a layer's."""
        return KernelInit(self.initial, self.layer_scaling())

    @nn.nowrap
    def for_task(self, task: str) -> Any:
        """The model as one of several tasks calls it (`objectives.MultiTask`): under the same paths, with all its
        parameters.

        With the task's head, if `head` is `Heads`; else all tasks call it alike. A model that has the heads of its
        tasks elsewhere overrides this.
        """
        head = getattr(self, "head", None)
        return self.clone(head=head.head(task)) if isinstance(head, Heads) else self


def models_inside(model: Model) -> Iterator[tuple[str, Model]]:
    """The models among a model's fields, by the name that their parameters are under."""
    values = ((field.name, getattr(model, field.name)) for field in config_fields(model))
    return ((name, value) for name, value in values if isinstance(value, Model))
