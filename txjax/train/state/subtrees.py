"""Parts of nested dicts by path: the trainable and the frozen parameters, and both together."""

from collections.abc import Callable

from flax import traverse_util

from txjax.types import PyTree

SEPARATOR = "/"


def pick(tree: PyTree, wanted: Callable[[str], bool]) -> PyTree:
    """The part of a nested dict with the paths for which `wanted` is true."""
    flat = traverse_util.flatten_dict(tree, sep=SEPARATOR)
    return traverse_util.unflatten_dict({k: v for k, v in flat.items() if wanted(k)}, sep=SEPARATOR)


def merge(a: PyTree, b: PyTree) -> PyTree:
    """The nested dict with the paths of both."""
    flat = traverse_util.flatten_dict(a, sep=SEPARATOR) | traverse_util.flatten_dict(b, sep=SEPARATOR)
    return traverse_util.unflatten_dict(flat, sep=SEPARATOR)
