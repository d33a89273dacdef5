"""Attention by sums over keys that run along the sequence, in chunks: time linear in the length, a state of one size.

With features f of queries and keys, the output of query i is sum_j (f(q_i) . f(k_j)) v_j / sum_j f(q_i) . f(k_j), so
keys and values are needed only as the sum of f(k_j) v_j^T (Katharopoulos et al. 2020, equations 5 and 9). Inside a
chunk the pairs are computed; what is before it (and after it, without a causal mask) is a sum.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """What earlier tokens leave for later ones.

    Attributes:
      sums: float32 [B G M V+1], the sum over keys of features times values; the last column has values of 1.
      segment: int32 [B], the document that it sums; 0 before the first token.
    """

    sums: jax.Array
    segment: jax.Array

    @staticmethod
    def empty(batch: int, groups: int, features: int, size: int) -> "State":
        """The state before the first token."""
        return State(jnp.zeros((batch, groups, features, size + 1)), jnp.zeros((batch,), jnp.int32))


def attend_by_sums(
    query: Float[Array, "B L H M"],
    key: Float[Array, "B L G M"],
    value: Float[Array, "B L G V"],
    segments: Int[Array, "#B L"] | None,
    causal: bool,
    chunk: int,
    eps: float,
    state: State | None = None,
) -> tuple[Float[Array, "B L H V"], State]:
    """The weighted values, float32, and the state after the last token.

    A query sees the keys of its own segment, with `causal` those up to its own. Each of the G key heads is shared by
    H/G consecutive query heads. Padding (segment 0) is seen by no query, and its output is 0.

    Args:
      query, key: features, float32.
      segments: the tokens of one are next to each other, but for padding. If None, all are of segment 1.
      chunk: tokens whose pairs are computed.
      eps: added to the sum of the weights.
      state: after earlier tokens. If None, there are none.
    """
    batch, length, heads, features = query.shape
    groups, size = value.shape[2:]
    chunk = min(chunk, length)
    segments = jnp.ones((1, length), jnp.int32) if segments is None else segments
    documents = _cut(jnp.broadcast_to(segments, (batch, length)), chunk)
    query = _cut(query.reshape(batch, length, groups, heads // groups, features), chunk)
    value = jnp.concatenate([value.astype(jnp.float32), jnp.ones((*value.shape[:-1], 1))], -1)
    key = _cut(key, chunk)
    value = _cut(value, chunk)

    near = (documents[:, :, :, None] == documents[:, :, None]) & (documents > 0)[:, :, None]
    if causal:
        near = jnp.tril(near)
    weights = jnp.einsum("bnigrm,bnjgm->bngrij", query, key) * near[:, :, None, None]
    total = jnp.einsum("bngrij,bnjgv->bnigrv", weights, value)
    empty = State.empty(batch, groups, features, size)
    before, last = _sums_before(key, value, documents, state or empty)
    total = total + _from_state(query, documents, before)
    if not causal:
        after, _ = _sums_before(_reversed(key), _reversed(value), _reversed(documents), empty)
        total = total + _from_state(query, documents, jax.tree.map(lambda x: jnp.flip(x, 1), after))
    total = total.reshape(batch, -1, heads, size + 1)[:, :length]
    return total[..., :-1] / (total[..., -1:] + eps), last


def attention_by_pairs(
    query: Float[Array, "B L H M"], key: Float[Array, "B L G M"], allowed: jax.Array | None, eps: float
) -> Float[Array, "B H L L"]:
    """The weights that `attend_by_sums` gives to the values, from all pairs.

    Args:
      allowed: bool, broadcastable to them: which pairs see each other. If None, all.
    """
    batch, length, heads, features = query.shape
    grouped = query.reshape(batch, length, key.shape[2], -1, features)
    weights = jnp.einsum("bigrm,bjgm->bgrij", grouped, key).reshape(batch, heads, length, length)
    weights = weights if allowed is None else weights * allowed
    return weights / (weights.sum(-1, keepdims=True) + eps)


def _cut(x: jax.Array, chunk: int) -> jax.Array:
    """[B L ...] -> [B N C ...], padded with zeros at the end."""
    filled = [(0, 0), (0, -x.shape[1] % chunk), *((0, 0),) * (x.ndim - 2)]
    return jnp.pad(x, filled).reshape(x.shape[0], -1, chunk, *x.shape[2:])


def _reversed(x: jax.Array) -> jax.Array:
    """[B N C ...] in the order from the last token to the first."""
    return jnp.flip(x, (1, 2))


def _sums_before(key: jax.Array, value: jax.Array, documents: jax.Array, state: State) -> tuple[State, State]:
    """The states before each chunk [B N ...], and the one after the last.

    A state has the last document that began before; another one in the chunk starts from nothing.
    """
    token_mask = documents > 0
    end = documents.shape[2] - 1 - jnp.argmax(jnp.flip(token_mask, 2), 2)
    last = jnp.take_along_axis(documents, end[..., None], 2)[..., 0]  # 0 if all is padding
    counted = (token_mask & (documents == last[..., None])).astype(jnp.float32)
    sums = jnp.einsum("bnjgm,bnj,bnjgv->nbgmv", key, counted, value)

    def step(state: State, chunk: tuple[jax.Array, jax.Array]) -> tuple[State, State]:
        sums, last = chunk
        stays = (last == state.segment) | (last == 0)
        kept = state.sums * stays[:, None, None, None]
        return State(kept + sums, jnp.where(last == 0, state.segment, last)), state

    after, before = jax.lax.scan(step, state, (sums, last.swapaxes(0, 1)))
    return jax.tree.map(lambda x: x.swapaxes(0, 1), before), after


def _from_state(query: jax.Array, documents: jax.Array, state: State) -> jax.Array:
    """What the queries of each chunk get from its state [B N C G R V+1]."""
    visible = (documents == state.segment[:, :, None]) & (documents > 0)
    return jnp.einsum("bnigrm,bni,bngmv->bnigrv", query, visible.astype(jnp.float32), state.sums)
