"""Who may attend to whom, said in words that a kernel can skip blocks by."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

_static = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mask:
    """A query sees a key where all of these allow it; `Mask()` allows everything.

    Queries and keys are numbered by their places 0, 1, ... in the call; `offset` moves the queries.

    Attributes:
      causal: no key after its query.
      window: only keys less than this many places from their query (with `causal`, the query's own among them, as many
        as Beltagy et al. 2020 and Jiang et al. 2023 let it see); None = no limit.
      query_segments, key_segments: int32 [B|1 L] and [B|1 S]: only keys of the query's own document. Padding (0) sees
        padding, and nobody else sees it. None = one document.
      offset: int32 [], the place of the first query among the keys; None = 0.
      allowed: bool [B|1 1|H 1|L S], anything else; None = nothing else. No kernel but the reference takes it.
    """

    causal: bool = dataclasses.field(default=False, metadata=_static)
    window: int | None = dataclasses.field(default=None, metadata=_static)
    query_segments: Int[Array, "#B L"] | None = None
    key_segments: Int[Array, "#B S"] | None = None
    offset: Int[Array, ""] | None = None
    allowed: Bool[Array, "#B #H #L S"] | None = None

    @staticmethod
    def within(segments: Int[Array, "#B L"] | None, causal: bool = False) -> Mask:
        """Of tokens that look at themselves, each inside its own segment."""
        return Mask(causal=causal, query_segments=segments, key_segments=segments)

    @property
    def segments(self) -> tuple[Int[Array, "#B L"], Int[Array, "#B S"]] | None:
        """Those of the queries and those of the keys; None where there is but one document."""
        if self.query_segments is None or self.key_segments is None:
            assert self.query_segments is None and self.key_segments is None, "segments of one side only"
            return None
        return self.query_segments, self.key_segments

    def dense(self, length: int, source: int) -> Bool[Array, "#B #H #L S"] | None:
        """True where one of L queries may see one of S keys; None where all may see all."""
        parts = []
        if self.causal or self.window is not None:
            queries, keys = jnp.arange(length, dtype=jnp.int32), jnp.arange(source, dtype=jnp.int32)
            if self.offset is not None:
                queries = self.offset + queries
            parts.append(self._near(queries[:, None], keys[None])[None, None])
        if self.segments is not None:
            queries, keys = self.segments
            parts.append((keys[:, None, :] == queries[:, :, None])[:, None])
        if self.allowed is not None:
            parts.append(self.allowed)
        if not parts:
            return None
        mask = parts[0]
        for part in parts[1:]:
            mask = mask & part
        return mask

    def pairs(self, length: int, source: int) -> int:
        """Of the L * S pairs of a query and a key, those that `causal` and `window` let through.

        Where the queries' places are not known before the program runs, all of them.
        """
        if self.offset is not None or not (self.causal or self.window):
            return length * source
        places = np.arange(length)
        behind = length + source if self.window is None else self.window - 1
        ahead = 0 if self.causal else behind
        seen = np.minimum(places + ahead, source - 1) - np.maximum(places - behind, 0) + 1
        return int(np.maximum(seen, 0).sum())

    def _near(self, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """What `causal` and `window` allow between places."""
        if self.window is None:
            return keys <= queries
        near = keys > queries - self.window
        return near & (keys <= queries if self.causal else keys < queries + self.window)


NO_MASK = Mask()
