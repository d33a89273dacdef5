"""Recurrent decoders that attend to a source: before the state is updated, or after."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.models.text.recurrent.alignment import Alignment, Annotations
from txjax.models.text.recurrent.cells import Cell
from txjax.models.text.recurrent.recurrent_scan import Recurrent, over_positions, unless_padding
from txjax.nn.attention.cache import keep_in_cache

Read = tuple[Float[Array, "B L D"], Float[Array, "B L C"], Float[Array, "B L S"]]  # states, contexts, weights


class AttendingDecoder(nn.Module):
    """Base of the orders in which a decoder updates its state s and attends to the source.

    In step-by-step decoding the state, the source's keys and its values are kept in the collection "cache".

    Attributes:
      cell, alignment: templates, set by the model.
    """

    cell: Cell | None = None
    alignment: Alignment | None = None

    def states_and_weights(
        self,
        state: Float[Array, "B N D"],
        embedded: Float[Array, "B L M"],
        source: Annotations,
        token_mask: Bool[Array, "B L"] | None,
    ) -> tuple[Float[Array, "B N D"], Read]:
        """The last state; and for each token the state with which it attends, the context, and the weights.

        Called inside a compact method.
        """
        raise NotImplementedError

    @nn.compact
    def __call__(
        self,
        embedded: Float[Array, "B L M"],
        hidden: Float[Array, "B D"] | None = None,
        values: Float[Array, "B S C"] | None = None,
        source_real: Bool[Array, "B S"] | None = None,
        token_mask: Bool[Array, "B L"] | None = None,
    ) -> tuple[Float[Array, "B L D"], Float[Array, "B L C"]]:
        """For each token, the state that attends and the context, a weighted mean of the source's values.

        Args:
          embedded: the target tokens.
          hidden: the hidden state before the first token.
          values: the encoded source. If it and `hidden` are None, this is a later call of step-by-step decoding.
          source_real, real: which tokens are not padding. If None, all.
        """
        assert self.cell and self.alignment
        state = None if hidden is None else self.cell.start(hidden)
        source = None if values is None else Annotations(self.alignment.keys(values), values, source_real)
        caching = self.is_mutable_collection("cache") and not self.is_initializing()
        if caching:
            source = self._kept(source)
            state = keep_in_cache(self, "state", None) if state is None else state
        assert state is not None and source is not None
        state, (states, contexts, _) = self.states_and_weights(state, embedded, source, token_mask)
        if caching:
            keep_in_cache(self, "state", state, "batch")
        return states, contexts

    @nn.nowrap
    def _kept(self, source: Annotations | None) -> Annotations:
        """The source of this call, or of the first one."""
        arrays: dict[str, jax.Array | None] = {"keys": None, "values": None, "real": None}
        if source is not None:
            token_mask = jnp.ones(source.keys.shape[:2], bool) if source.token_mask is None else source.token_mask
            arrays = {"keys": source.keys, "values": source.values, "real": token_mask}
        return Annotations(*(keep_in_cache(self, f"source_{name}", x, "sources") for name, x in arrays.items()))


class BahdanauDecoder(AttendingDecoder):
    """Attends with the state before the token; the context is an input of the cell (Bahdanau et al. 2015, A.1.2).

    c_t = attend(s_{t-1}), s_t = cell(s_{t-1}, y_{t-1}, c_t). The outputs are s_{t-1} and c_t.

    Parameters: `input` [M G D], `keys`, `steps` (`cell`, `alignment`, `context` [C G D]).
    """

    def states_and_weights(
        self,
        state: Float[Array, "B N D"],
        embedded: Float[Array, "B L M"],
        source: Annotations,
        token_mask: Bool[Array, "B L"] | None,
    ) -> tuple[Float[Array, "B N D"], Read]:
        assert self.cell and self.alignment
        parts = (part.clone(parent=None, name=None) for part in (self.cell, self.alignment))
        loop = over_positions(AttendingStep)(*parts, name="steps")
        return loop(state, (self.cell.inputs(embedded), token_mask), source)


class AttendingStep(nn.Module):
    """One token of `BahdanauDecoder`. Parameters: `cell`, `alignment`, `context`."""

    cell: Cell
    alignment: Alignment

    @nn.compact
    def __call__(
        self, state: Float[Array, "B N D"], at: tuple, source: Annotations
    ) -> tuple[Float[Array, "B N D"], tuple[Array, Array, Array]]:
        embedded, token_mask = at
        hidden = state[:, 0]
        context, weights = (x[:, 0] for x in self.alignment(hidden[:, None], source))
        new = self.cell(state, embedded + self.cell.product(context, "context"))
        return unless_padding(token_mask, new, state), (hidden, context, weights)


class LuongDecoder(AttendingDecoder):
    """Attends with the state after the token (Luong et al. 2015, 3.1), without input feeding.

    s_t = cell(s_{t-1}, y_{t-1}), c_t = attend(s_t). The outputs are s_t and c_t. No attention is in the loop: it is
    computed for all tokens at once.

    Parameters: `recurrent` (`input` [M G D], `steps/cell`), `keys`, `alignment`.
    """

    def states_and_weights(
        self,
        state: Float[Array, "B N D"],
        embedded: Float[Array, "B L M"],
        source: Annotations,
        token_mask: Bool[Array, "B L"] | None,
    ) -> tuple[Float[Array, "B N D"], Read]:
        assert self.cell and self.alignment
        cell = self.cell.clone(parent=None, name=None)
        state, states = Recurrent(cell, name="recurrent")(embedded, state, token_mask)
        return state, (states, *self.alignment(states, source))
