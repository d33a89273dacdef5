"""Arrays of one step on the disk: each must have the path, shape and dtype that the model expects; none is cast."""

import functools
from pathlib import Path
from typing import Any

from txjax.checkpoint.orbax_threads import silence_threads
from txjax.checkpoint.steps import unreadable
from txjax.errors import UserError, near_misses
from txjax.types import PyTree, flat_paths


@functools.cache
def orbax() -> Any:
    """Orbax's API, imported when it is first needed: a fifth of all imports."""
    from orbax.checkpoint import v1

    silence_threads()
    return v1


def write_arrays(folder: Path, parts: dict[str, PyTree]) -> Any:
    """Starts writing arrays to a new folder; returns Orbax's response, whose `result()` waits for the end.

    They are not compressed: zstd makes trained float32 values 8% smaller, and writing them takes twice as long.
    """
    with _options():
        return orbax().save_checkpointables_async(folder, parts)


def _options() -> Any:
    """The context of Orbax's options: arrays are not compressed, and only the wanted ones are read.

    Before 0.12 Orbax takes options as arguments, which it deprecates from then on. Before 0.11.30 the replicas of an
    array can't write a part each inside `jax.set_mesh`: one of them writes it whole.
    """
    ocp = orbax()
    if not hasattr(ocp.Context, "array"):
        saving = ocp.options.ArrayOptions.Saving(use_compression=False, use_replica_parallel=False)
        loading = ocp.options.PyTreeOptions.Loading(partial_load=True)
        return ocp.Context(
            array_options=ocp.options.ArrayOptions(saving=saving),
            pytree_options=ocp.options.PyTreeOptions(loading=loading),
        )
    context = ocp.Context()
    context.array.saving.use_compression = False
    context.pytree.loading.partial_load = True
    return context


def check_arrays(run: Path, step: int, arrays: dict[str, Any], abstract: dict[str, PyTree], all_of_them: bool) -> None:
    """Compares the expected arrays with the stored ones.

    Args:
      run: the workdir of the step, for the message.
      arrays: the `arrays` of the step's record: path -> shape and dtype.
      abstract: the expected arrays, by part.
      all_of_them: whether `abstract` must have every stored array of the parts that it names.

    Raises:
      UserError: an array is missing or unexpected, or has another shape or dtype.
    """
    hint = f"it was saved by another model or optimizer: see `txjax diff {run} OTHER`, OTHER a run of this one"
    stored = {path: tuple(spec) for path, spec in arrays.items()}
    wanted = flat_paths(abstract)
    for path, leaf in wanted.items():
        if path not in stored:
            raise UserError(f"checkpoint {step}", f"an array {path}", near=near_misses(path, stored), hint=hint)
        if (list(leaf.shape), str(leaf.dtype)) != stored[path]:
            shape, dtype = stored[path]
            expected = f"{path} to be {leaf.dtype}{list(leaf.shape)}"
            raise UserError(f"checkpoint {step}", expected, f"{dtype}{shape}", hint=hint)
    extra = [path for path in stored if path.split("/")[0] in abstract and path not in wanted]
    if extra and all_of_them:
        raise UserError(f"checkpoint {step}", f"no array {extra[0]}", hint=hint)


def read_arrays(step: int, folder: Path, abstract: dict[str, PyTree]) -> dict[str, PyTree]:
    """The arrays in a step's folder that are in `abstract`, placed as it says. Raises RunError if unreadable.

    Orbax has no empty trees, and takes one for an array where the step has a tree: they are not asked for.
    """
    try:
        with _options():
            return _with_empty(orbax().load_checkpointables(folder / "arrays", _without_empty(abstract)), abstract)
    except Exception as error:  # Orbax raises a dozen types: the digests are right, the content is not Orbax's
        raise unreadable(step, error) from error


def _without_empty(tree: PyTree) -> PyTree:
    """The tree without the dicts in it that have no leaves."""
    if not isinstance(tree, dict):
        return tree
    pruned = {key: _without_empty(value) for key, value in tree.items()}
    return {key: value for key, value in pruned.items() if not (isinstance(value, dict) and not value)}


def _with_empty(arrays: PyTree, tree: PyTree) -> PyTree:
    """The arrays with the empty dicts of a tree."""
    if not isinstance(tree, dict) or not isinstance(arrays, dict):
        return arrays
    return {key: _with_empty(arrays.get(key, {}), value) for key, value in tree.items()}
