"""How a model continues texts: prefill of its inputs, then one token of each row a step."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import meta
from jaxtyping import Array, Float, Int

from txjax import backend
from txjax.errors import UserError
from txjax.nn import PROMPT, Logits, record_stacks, unstacked
from txjax.sharding import constrain, num_shards
from txjax.types import PyTree, flat_paths, path_name

Inputs = Mapping[
    str, jax.Array | np.ndarray
]  # the model's arguments by name: `tokens` [B P], the prompt, and any others
TEXT = ("tokens", "segments", "positions")  # the inputs along the text

Step = tuple[Float[Array, "B V"], PyTree]  # the logits of the next token, and the state of the texts so far


@dataclasses.dataclass(frozen=True)
class Generator(abc.ABC):
    """A model as a search calls it. All methods can be traced.

    Prompts of different lengths are padded on the left, with `segments` 0 and `positions` of their own (`prompts`).

    Attributes:
      model: a causal model; it gives logits [B L V].
    """

    model: Any

    def prepare(self, variables: PyTree, inputs: Inputs) -> PyTree:
        """The variables in the form in which `start` and `step` read them fastest, for a search to call once.

        Both take them in either form.
        """
        return variables

    @abc.abstractmethod
    def start(self, variables: PyTree, inputs: Inputs, length: int) -> Step:
        """Reads the prompts and all other inputs, with space for `length` more tokens."""

    @abc.abstractmethod
    def step(self, variables: PyTree, state: PyTree, tokens: Int[Array, "B"]) -> Step:
        """Reads one more token of each row."""

    @abc.abstractmethod
    def select(self, state: PyTree, rows: Int[Array, "B K"]) -> PyTree:
        """The state of some rows, in any order and any number of times.

        The rows of `state` are B groups of equal size; those of the result are B groups of K.

        Args:
          rows: the rows to take, counted from the first of each group.
        """

    def log_probs(self, logits: Float[Array, "N V"]) -> Float[Array, "N V"]:
        """What each next token adds to a text's score, float32, from the logits of `start` and `step`."""
        return jax.nn.log_softmax(logits.astype(jnp.float32))

    def with_decoder(self, make: Callable[["Generator"], "Generator"]) -> "Generator":
        """The same with `make(x)` for the generator x that reads the prompts: itself, if it has no parts."""
        return make(self)


@dataclasses.dataclass(frozen=True)
class Cached(Generator):
    """Decoding with a model that has a cache: each call reads one token, and only the first has the other inputs.

    The state is the collection "cache". Its arrays have logical axes (`nn.cached`): "batch", whose rows follow the
    texts, or "sources", whose rows are equal in each group, so that selecting as many as there are changes nothing.
    """

    def prepare(self, variables: PyTree, inputs: Inputs) -> PyTree:
        with record_stacks() as stacks:
            jax.eval_shape(lambda v, arguments: self.model.apply(v, **arguments, train=False), variables, dict(inputs))
        whole = [stack for stack in stacks if not stack.chosen and num_shards("layers") == 1]
        return unstacked(variables, (stack.path for stack in whole if backend.unstacks(stack.depth)))

    def start(self, variables: PyTree, inputs: Inputs, length: int) -> Step:
        output, cache = self.read_prompts(variables, inputs, length)
        return last_logits(output), cache

    def step(self, variables: PyTree, state: PyTree, tokens: Int[Array, "B"]) -> Step:
        return self.resume(variables, state, {"tokens": tokens[:, None]})

    def resume(self, variables: PyTree, state: PyTree, inputs: Inputs) -> Step:
        """Reads more tokens [B N] of each row, for which the cache has space, and any other inputs."""
        output, cache = self._read(variables, state, inputs)
        return last_logits(output), cache

    def read_prompts(
        self, variables: PyTree, inputs: Inputs, length: int, method: str | None = None
    ) -> tuple[Any, PyTree]:
        """The model's output for the prompts and all other inputs, and the cache with space for `length` more tokens.

        Args:
          method: of the model, which takes the same arguments. If None, `__call__`.
        """
        cache = empty_cache(self.model, variables, inputs, length)
        if any(path.rpartition("/")[2] == PROMPT for path in flat_paths(cache)):
            before = {name: x[:, :0] if name in TEXT else x for name, x in inputs.items()}
            _, cache = self._read(variables, cache, before)
        return self._read(variables, cache, inputs, method)

    def select(self, state: PyTree, rows: Int[Array, "B K"]) -> PyTree:
        def move(path: tuple[Any, ...], leaf: Any) -> Any:
            names = leaf.names if isinstance(leaf, meta.Partitioned) else ()
            if "sources" in names and leaf.value.shape[names.index("sources")] == rows.size:
                return leaf
            if along := next((name for name in ("batch", "sources") if name in names), None):
                return leaf.replace(value=select_rows(leaf.value, rows, names, along))
            if isinstance(leaf, jax.Array) and leaf.ndim:
                model = type(self.model).__name__
                hint = "create it by nn.cached or nn.update_cache"
                raise UserError(f"the cache of {model}", "an axis named batch", path_name(path), hint=hint)
            return leaf

        return jax.tree.map_with_path(move, state, is_leaf=_is_boxed)

    def _read(self, variables: PyTree, cache: PyTree, inputs: Inputs, method: str | None = None) -> tuple[Any, PyTree]:
        called = {"train": False, "mutable": ["cache"], "method": method}
        output, changed = self.model.apply({**variables, "cache": cache}, **inputs, **called)
        return output, changed["cache"]


@dataclasses.dataclass(frozen=True)
class Recomputed(Generator):
    """Decoding with any causal model: each token is computed anew from the last `window` tokens and all other inputs.

    Attributes:
      window: the number of tokens that the model reads, as in training.
    """

    window: int

    def start(self, variables: PyTree, inputs: Inputs, length: int) -> Step:
        tokens = inputs["tokens"]
        others = {name: x for name, x in inputs.items() if name not in TEXT}
        rows, prompt_length = tokens.shape
        count = (inputs["segments"] > 0).sum(1) if "segments" in inputs else jnp.full((rows,), prompt_length)
        count = jnp.minimum(count, self.window).astype(jnp.int32)
        column = jnp.arange(self.window)[None]
        index = jnp.minimum(column + (prompt_length - count)[:, None], prompt_length - 1)
        text = jnp.where(column < count[:, None], jnp.take_along_axis(tokens, index, axis=1), 0)
        return self._call(variables, {"text": text, "count": count, "others": others})

    def step(self, variables: PyTree, state: PyTree, tokens: Int[Array, "B"]) -> Step:
        text = state["text"]
        count = state["count"]
        text = jnp.where(count[:, None] < self.window, text, jnp.roll(text, -1, axis=1))
        count = jnp.minimum(count + 1, self.window)
        text = jnp.where(jnp.arange(self.window)[None] == count[:, None] - 1, tokens[:, None], text)
        return self._call(variables, {**state, "text": text, "count": count})

    def select(self, state: PyTree, rows: Int[Array, "B K"]) -> PyTree:
        return jax.tree.map(lambda x: select_rows(x, rows, ("batch",)), state)

    def _call(self, variables: PyTree, state: PyTree) -> Step:
        output = self.model.apply(variables, tokens=state["text"], **state["others"], train=False)
        return Logits.of(output).take(state["count"][:, None] - 1)[:, 0].dense(), state


def last_logits(output: Any) -> Float[Array, "B V"]:
    """The logits of the last token of each row, from a model's output."""
    return Logits.of(output)[:, -1].dense()


def select_rows(x: jax.Array, rows: Int[Array, "B K"], axes: tuple[str | None, ...], along: str = "batch") -> jax.Array:
    """The rows of x, along one of its axes, as in `Generator.select`; each device takes them from its own."""
    axis = axes.index(along)
    groups, size = rows.shape
    before = x.shape[:axis]
    after = x.shape[axis + 1 :]
    index = rows.reshape(*(1 for _ in before), groups, size, *(1 for _ in after))
    x = jnp.take_along_axis(x.reshape(*before, groups, -1, *after), index, axis=axis + 1, mode="promise_in_bounds")
    names = tuple(None if name == "layers" else name for name in axes)  # as inside a layer: the rows take its devices
    return constrain(x.reshape(*before, groups * size, *after), *names)


def generator_for(model: Any, variables: PyTree, inputs: Inputs, window: int) -> Generator:
    """The generator of a model: `Cached` if the model has a cache, else `Recomputed`.

    Args:
      inputs: the first call's, as arrays or as shapes.
      window: the number of tokens that a model without a cache reads, as in training.
    """
    cache = _cache_shapes(model, variables, inputs, window)
    return Cached(model) if cache else Recomputed(model, window)


def empty_cache(model: Any, variables: PyTree, inputs: Inputs, length: int) -> PyTree:
    """The empty cache of a model for a call with `inputs` and `length` more tokens.

    Raises:
      UserError: the text is longer than the model's positions.
    """
    length += inputs["tokens"].shape[1] + adapter_tokens(model)
    cache = _cache_shapes(model, variables, inputs, length)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), cache)


def _cache_shapes(model: Any, variables: PyTree, inputs: Inputs, length: int) -> PyTree:
    """The shapes of the cache that a call with `length` tokens a row makes, {} without one."""
    rows = inputs["tokens"].shape[0]
    others = {name: x for name, x in inputs.items() if name not in TEXT}

    def call(variables: PyTree, inputs: Inputs) -> tuple[Any, PyTree]:
        return model.apply(variables, **inputs, train=False, mutable=["cache"])

    tokens = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    _, changed = jax.eval_shape(call, variables, {"tokens": tokens, **others})
    return changed.get("cache", {})


def adapter_tokens(model: Any) -> int:
    """The number of tokens that the model's adapter adds before a text."""
    adapter = getattr(model, "adapter", None)
    return 0 if adapter is None else adapter.tokens()


def _is_boxed(leaf: Any) -> bool:
    return isinstance(leaf, meta.AxisMetadata)
