"""Attention masks in a form from which kernels can skip blocks."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from txjax.errors import UserError

_static = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mask:
    """The conditions under which a query sees a key: all must hold. `Mask()` allows everything.

    Queries and keys have the indices 0, 1, ... in the call; `offset` is added to the queries'.

    Attributes:
      causal: no key after its query.
      window: only keys less than this many positions from their query (with `causal`, including the query's own, as
        in Beltagy et al. 2020 and Jiang et al. 2023). If None, no limit.
      query_segments, key_segments: int32 [B|1 L] and [B|1 S]: only keys of the query's own document. Padding (0) sees
        padding only, and only padding sees it. If None, all is one document.
      offset: int32 [], the index of the first query among the keys. If None, 0.
      prefix: the number of the first keys that are of all segments. Only the reference supports it with segments.
      allowed: bool [B|1 1|H 1|L S], any other condition. If None, there is none. Only the reference supports it.
    """

    causal: bool = dataclasses.field(default=False, metadata=_static)
    window: int | None = dataclasses.field(default=None, metadata=_static)
    query_segments: Int[Array, "#B L"] | None = None
    key_segments: Int[Array, "#B S"] | None = None
    offset: Int[Array, ""] | None = None
    allowed: Bool[Array, "#B #H #L S"] | None = None
    prefix: int = dataclasses.field(default=0, metadata=_static)

    @staticmethod
    def within(segments: Int[Array, "#B L"] | None, causal: bool = False) -> Mask:
        """The mask of self-attention inside each segment."""
        return Mask(causal=causal, query_segments=segments, key_segments=segments)

    @property
    def segments(self) -> tuple[Int[Array, "#B L"], Int[Array, "#B S"]] | None:
        """The segments of the queries and of the keys; None if there is one document."""
        if self.query_segments is None or self.key_segments is None:
            assert self.query_segments is None and self.key_segments is None, "segments of one side only"
            return None
        return self.query_segments, self.key_segments

    def after_prompt(self, queries: int, keys: int) -> Mask:
        """The mask with so many queries and keys before these, which tokens of all segments see."""
        if self.allowed is not None or self.offset is not None:
            raise UserError("config.model.adapter", "no Prompt() where the mask is an array")
        segments = _after_ones(self.query_segments, queries), _after_ones(self.key_segments, keys)
        return Mask(self.causal, self.window, *segments, prefix=self.prefix + keys)

    def dense(self, length: int, source: int) -> Bool[Array, "#B #H #L S"] | None:
        """The mask as an array, True where a query sees a key; None if all see all."""
        parts = []
        if self.causal or self.window is not None:
            queries = jnp.arange(length, dtype=jnp.int32)
            keys = jnp.arange(source, dtype=jnp.int32)
            if self.offset is not None:
                queries = self.offset + queries
            parts.append(self._near(queries[:, None], keys[None])[None, None])
        if self.segments is not None:
            queries, keys = self.segments
            same = (keys[:, None, :] == queries[:, :, None])[:, None]
            parts.append(same | (jnp.arange(source) < self.prefix)[None, None, None] if self.prefix else same)
        if self.allowed is not None:
            parts.append(self.allowed)
        if not parts:
            return None
        mask = parts[0]
        for part in parts[1:]:
            mask = mask & part
        return mask

    def pairs(self, length: int, source: int) -> int:
        """The number of pairs of a query and a key, of L * S, that `causal` and `window` allow.

        All of them if `offset`, which is known only when the program runs, is given.
        """
        if self.offset is not None or not (self.causal or self.window):
            return length * source
        queries = np.arange(length)
        behind = length + source if self.window is None else self.window - 1
        ahead = 0 if self.causal else behind
        counts = np.minimum(queries + ahead, source - 1) - np.maximum(queries - behind, 0) + 1
        return int(np.maximum(counts, 0).sum())

    def _near(self, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """Whether `causal` and `window` allow these pairs of indices."""
        if self.window is None:
            return keys <= queries
        near = keys > queries - self.window
        return near & (keys <= queries if self.causal else keys < queries + self.window)


def _after_ones(segments: jax.Array | None, count: int) -> jax.Array | None:
    return None if segments is None else jnp.pad(segments, ((0, 0), (count, 0)), constant_values=1)


NO_MASK = Mask()
