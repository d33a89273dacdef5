"""Folders of Hugging Face's peft as workdirs and back: for `import --base` and `export --adapter`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.huggingface_files import is_folder, keep, origin_family
from txjax.cli.merging import without_storage
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.types import PyTree


def import_adapter(source: Path, base: Path, workdir: Path, trust: Sequence[str]) -> int:
    """Makes a workdir of a base with the adapter of a folder. Returns the exit code.

    The adapter's parameters are the trained ones, and those of the base that it replaces; the others are frozen.

    Args:
      base: a workdir, of whose run the last step is read, or a Hugging Face folder.
    """
    import jax

    from txjax.checkpoint import Store
    from txjax.experiment import Experiment
    from txjax.interop import huggingface
    from txjax.interop.huggingface.options import missing_file
    from txjax.interop.peft import peft, peft_heads
    from txjax.io.kept_files import files_beside_weights, inherit_files
    from txjax.io.new_folder import new_folder
    from txjax.nn import dequantized, parameter_sizes, stored_parts
    from txjax.optim import train_adapter
    from txjax.train.run.workdir import write_config, write_manifest
    from txjax.train.state.subtrees import pick
    from txjax.types import flat_paths

    if not base.exists():
        raise missing_file(base, "config.json")
    theirs = is_folder(base)
    if theirs:
        files_beside_weights(base)  # raises before a workdir is made
    loaded, variables, origins = (*huggingface.load(base), []) if theirs else _last_step(base, trust)
    model = loaded.model if isinstance(loaded, Experiment) else loaded
    if getattr(model, "adapter", None) is not None:
        raise UserError("--base", "a run without an adapter", str(base), hint="`txjax merge` makes one of it")
    state = dict(variables)
    kept = flat_paths(state.pop("params"))
    params = flat_paths(dequantized(_nest(kept)))
    origin = origin_family(base)
    plain = without_storage(model)
    of_task, based = peft_heads.for_task(source, plain, params, base if theirs else None, origin)
    adapter, new = peft.load(source, of_task, based, origin)
    if of_task is not plain:
        model = model.clone(head=of_task.head)
        kernels = stored_parts(kept)
        kept = {path: x for path, x in kept.items() if kernels.get(path, path) in based}
        kept |= {path: based[path] for path in based.keys() - params.keys()}
        loaded = model  # a run's objective is for its own head
    if quantized := sorted({*stored_parts(kept).values()} & new.keys()):
        raise UserError("--base", f"a run with {quantized[0]} in float32, which the adapter replaces", str(base))
    whole = {**kept, **new}
    tree = jax.tree.map(jax.numpy.asarray, _nest(whole))
    parts = {"params": pick(tree, lambda path: path in new), "frozen": pick(tree, lambda path: path not in new)}
    with new_folder("--workdir", workdir) as folder:
        missing = ""
        if theirs:
            loaded, missing = keep(base, folder, workdir, model)
        else:
            inherit_files(folder, [base])
        adapted = model.clone(adapter=adapter)
        if isinstance(loaded, Experiment):
            replaced = [re.escape(path) for path in new if path in based]
            loaded.model = adapted
            loaded.init_from = None
            loaded.ema = None
            loaded.optimizer.groups = train_adapter(*replaced)
        store = Store(folder)
        record = {"from": str(source.resolve()), "metrics": {}}
        store.save_parts(0, {"weights": {**parts, "model_state": jax.tree.map(jax.numpy.asarray, state)}}, record)
        store.wait()
        count = sum(parameter_sizes(tree).values())
        write_manifest(folder, {}, {"parameters": count, "flops_per_step": 0}, origins=origins)
        write_config(folder, loaded if isinstance(loaded, Experiment) else adapted)
    trained = sum(x.size for x in new.values())
    print(f"{type(adapter).__name__} with {trained:,} parameters on {base} in {workdir}{missing}")
    return 0


def _last_step(run: Path, trust: Sequence[str]) -> tuple[Any, PyTree, list[dict[str, Any]]]:
    """The experiment or model of a workdir, the variables of its last step, and its origin for a manifest."""
    from txjax.checkpoint import Store
    from txjax.cli.merging import saved_weights
    from txjax.io import digest
    from txjax.modules import trusted_modules
    from txjax.train.run.workdir import read_checkpoints, read_config

    store = Store(run, read_checkpoints(run))
    step = store.choose("last")
    origin = {"run": str(run.resolve()), "step": step, "digest": digest.of_all(store.path(step))}
    return read_config(run, trusted_modules(trust)), saved_weights(store, step), [origin]


def export_adapter(
    source: Any,
    variables: Any,
    trained: Collection[str],
    to: Path,
    family: str | None = None,
    origin: str | None = None,
) -> None:
    """Writes the adapter of a run alone, and the modules of its base that were trained too.

    Args:
      source: the run's experiment, or a model.
      variables: its weights, kernels as float32.
      trained: paths of the trained parameters, of the adapter and of its base.
      family: the `model_type` whose names are written, of the families that have the model.
      origin: the one of the files that the base comes from, which is written if `family` is None.
    """
    from txjax.experiment import Experiment
    from txjax.interop.peft import peft
    from txjax.types import flat_paths

    model = without_storage(source.model if isinstance(source, Experiment) else source)
    if getattr(model, "adapter", None) is None:
        raise UserError("--adapter", "a run with an adapter", type(model).__name__)
    params = flat_paths(variables["params"])
    inside = f"/{model.adapter.name}/"
    of_base = [path for path in trained if inside not in f"/{path}"]
    base = source.init_from if isinstance(source, Experiment) else None
    name = base if isinstance(base, str) else getattr(base, "run", None)
    peft.save(model, params, to, of_base, None if name is None else str(name), family, origin)


def _nest(flat: dict[str, Any]) -> Any:
    from flax import traverse_util

    return traverse_util.unflatten_dict(flat, sep="/")
