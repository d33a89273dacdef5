"""An adapter acts on a model from outside: it intercepts the methods of the modules that it adapts."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax

from txjax.nn.adapters.adapter import Adapter
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import StackInputs
from txjax.nn.conv.conv import Conv
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.reference_attention import log_normaliser
from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.active_adapter import ActiveAdapter, adapted, adapts, path_of, within_adapter
from txjax.nn.stack.block import Block
from txjax.nn.stack.stack import Stack
from txjax.tree import walk

Call = Callable[..., Any]  # the method itself, with the arguments that it is called with


@contextlib.contextmanager
def adapter_applied(adapter: Adapter | None) -> Iterator[set[str]]:
    """Makes this adapter adapt the model that is called inside. If None, nothing is intercepted.

    Returns:
      The paths of all modules that could be adapted, complete after the call.
    """
    if adapter is None:
        yield set()
        return
    active = ActiveAdapter(adapter.of, adapter.matches)
    with adapted(active), nn.intercept_methods(_Interceptor(adapter)):
        yield active.offered


class _Interceptor:
    """What an adapter does around the methods of a model's modules.

    Flax calls it inside the module whose method it is, so that the adapter's modules are children of that module.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.prompted = False  # whether the stack that is being called has the adapter's tokens before its own
        self.shared: jax.Array | None = None  # what it computes once for all of its layers
        acts: dict[str, dict[Any, Call]] = {  # by a function, or by the name of a method that several classes have
            "linear": {Linear.__call__: self.product, Conv.__call__: self.convolution},
            "attention": {Stack.__call__: self.stack, Attention.attend: self.attention},
            "stack": {
                Block.__call__: self.layer,
                "layers": self.tokens,
                "read_source": self.layer,
                "source_mask": self.source_mask,
            },
            "image": {"__call__": self.image},
        }
        of_kind = acts.get(adapter.of, {}) | {"causal_inputs": self.causal_inputs}
        self.acts = {getattr(key, "__wrapped__", key): act for key, act in of_kind.items()}

    def __call__(self, call: Call, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        function = context.orig_method.func  # type: ignore[attr-defined]  # of the method, overrides apart
        act = self.acts.get(function) or self.acts.get(context.method_name)
        return call(*args, **options) if act is None else act(context.module, call, *args, **options)

    def product(self, module: Linear | Conv, call: Call, x: jax.Array, *args: Any, **options: Any) -> jax.Array:
        """The adapted output of a product, for the adapted input."""
        if not adapts("linear", path_of(module)):
            return call(x, *args, **options)
        with within_adapter():
            x = self.adapter.enter(module, x)
        y = call(x, *args, **options)
        with within_adapter():
            return self.adapter.add(module, x, y)

    def convolution(self, module: Conv, call: Call, x: jax.Array, *args: Any, **options: Any) -> jax.Array:
        """`product` for a kernel without groups that is convolved as it is."""
        if module.groups > 1 or type(module).prepare is not Conv.prepare:
            return call(x, *args, **options)
        return self.product(module, call, x, *args, **options)

    def stack(self, stack: Stack, call: Call, *args: Any, **options: Any) -> Any:
        """The output of a stack, whose attentions find in `shared` what the adapter computes for all of them."""
        kind = stack.block[0] if isinstance(stack.block, tuple) else stack.block
        attentions = ((path.split("."), part) for path, part in walk(kind, "block") if isinstance(part, Attention))
        paths = (
            "/".join((*before, part.branch_name if field == "mixer" else field))
            for (*before, field), part in attentions
        )
        if any(self.adapter.matches(f"{path_of(stack)}/{path}") for path in paths):
            with within_adapter():
                self.shared = self.adapter.share(stack)
        try:
            return call(*args, **options)
        finally:
            self.shared = None

    def attention(
        self, module: Attention, call: Call, query: jax.Array, key: jax.Array, value: jax.Array, *args: Any
    ) -> jax.Array:
        """The weighted values and those of the adapter's keys."""
        y = call(query, key, value, *args)
        if not adapts("attention", path_of(module)):
            return y
        mask, bias, _ = args
        with within_adapter():
            return self.adapter.attend(module, query, y, log_normaliser(query, key, mask, bias), self.shared)

    def tokens(self, model: Any, call: Call, x: Any, inputs: StackInputs) -> Any:
        """What leaves the layers of a model, which have the adapter's tokens before the stream's."""
        takes = not self.prompted and isinstance(x, jax.Array)
        count = self.count(model, model.stack_name) if takes else 0
        if not count or (inputs.index is not None and inputs.before is None):  # of a later call, they are in the cache
            return call(x, inputs)
        with within_adapter():
            x = self.adapter.enter(model, x)
        self.prompted = True
        try:
            y = call(x, inputs.after_prompt(count, self.adapter.first_position))
        finally:
            self.prompted = False
        return y if model.keeps_prompts else y[..., count:, :]

    def count(self, model: Any, stack: str) -> int:
        """How many tokens the adapter adds before the input of the stack with this path in `model`."""
        takes = model.takes_prompts() and adapts("stack", f"{path_of(model)}/{stack}".lstrip("/"))
        return self.adapter.tokens() if takes else 0

    def causal_inputs(self, model: Any, call: Call, *args: Any) -> StackInputs:
        """The inputs of causal layers, of a text that begins at the adapter's position, after its tokens."""
        return call(*args, self.adapter.first_position, self.count(model, model.causal_stack))

    def source_mask(self, model: Any, call: Call, *args: Any) -> Mask:
        """The mask of what reads a source, with the adapter's tokens before it."""
        return call(*args, self.count(model, model.source_stack) if model.source_stack else 0)

    def layer(self, block: Block, call: Call, x: Any, *args: Any, **options: Any) -> Any:
        """The output of a layer in such a stack."""
        if self.prompted:
            with within_adapter():
                x = self.adapter.replace(block, x)
        return call(x, *args, **options)

    def image(self, module: Any, call: Call, *args: Any, **options: Any) -> Any:
        """The output of a module for the image [B H W C] that enters it, adapted."""
        image = args[0] if args else options.get("image")
        if image is None or not getattr(module, "takes_pixels", False) or not adapts("image", path_of(module)):
            return call(*args, **options)
        with within_adapter():
            image = self.adapter.enter(module, image)
        return call(image, *args[1:], **{name: x for name, x in options.items() if name != "image"})
