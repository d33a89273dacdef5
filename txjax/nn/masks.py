"""Who may attend to whom: bool [B|1 1 L S], True where a query may see a key. Combine them with `&`."""

from jaxtyping import Array, Bool, Int


def causal_mask(queries: Int[Array, "B L"], keys: Int[Array, "B S"]) -> Bool[Array, "B 1 L S"]:
    """No key after its query; both numbered by their place in the window."""
    return (keys[:, None, :] <= queries[:, :, None])[:, None]


def segment_mask(queries: Int[Array, "B L"], keys: Int[Array, "B S"]) -> Bool[Array, "B 1 L S"]:
    """Only keys of the query's own document. Padding (0) sees padding, and nobody else sees it."""
    return (keys[:, None, :] == queries[:, :, None])[:, None]
