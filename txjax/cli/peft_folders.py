"""Folders of Hugging Face's peft as workdirs and back: for `import --base` and `export --adapter`."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.types import UserError

KEPT = "huggingface"  # subfolder with the files that an export copies back


def import_adapter(source: Path, base: Path, workdir: Path, trust: Sequence[str]) -> int:
    """Makes a workdir of a base, the last step of a run, with the adapter of a folder. Returns the exit code.

    The adapter's parameters are the trained ones, and those of the base that it replaces; the others are frozen.
    """
    import jax

    from txjax.checkpoint import Store
    from txjax.cli.merging import weights
    from txjax.experiment import Experiment
    from txjax.interop.huggingface import peft
    from txjax.io import digest
    from txjax.modules import trusted
    from txjax.optim import train_adapter
    from txjax.train.subtrees import pick
    from txjax.train.workdir import lock_workdir, read_checkpoints, read_config, write_config, write_manifest
    from txjax.types import flat_paths

    found = read_config(base, trusted(trust))
    model = found.model if isinstance(found, Experiment) else found
    if getattr(model, "adapter", None) is not None:
        raise UserError("--base", "a run without an adapter", str(base), hint="`txjax merge` makes one of it")
    store = Store(base, read_checkpoints(base))
    step = store.choose("last")
    variables = weights(store, step)
    params = flat_paths(variables.pop("params"))
    adapter, new = peft.load(source, model, params)
    whole = {**params, **new}
    tree = jax.tree.map(jax.numpy.asarray, _nested(whole))
    parts = {"params": pick(tree, lambda path: path in new), "frozen": pick(tree, lambda path: path not in new)}
    adapted = model.clone(adapter=adapter)
    if isinstance(found, Experiment):
        replaced = [re.escape(path) for path in new if path in params]
        found.model, found.init_from, found.ema = adapted, None, None
        found.optimizer.groups = train_adapter(*replaced)
    origins = [{"run": str(base.resolve()), "step": step, "digest": digest.of_all(store.path(step))}]
    with lock_workdir(workdir) as workdir:
        if (base / KEPT).is_dir():
            shutil.copytree(base / KEPT, workdir / KEPT, dirs_exist_ok=True)
        made = Store(workdir)
        record = {"from": str(source.resolve()), "metrics": {}}
        made.save_parts(0, {"weights": {**parts, "model_state": variables}}, record)
        made.wait()
        count = sum(x.size for x in whole.values())
        write_manifest(workdir, {}, {"parameters": count, "flops_per_step": 0}, origins=origins)
        write_config(workdir, found if isinstance(found, Experiment) else adapted)
    trained = sum(x.size for x in new.values())
    print(f"{type(adapter).__name__} with {trained:,} parameters on {base} in {workdir}")
    return 0


def export_adapter(found: Any, variables: Any, to: Path) -> None:
    """Writes the adapter of a run alone, and the modules of its base that were trained too.

    Args:
      found: the run's experiment, or a model.
      variables: its weights.
    """
    from txjax.experiment import Experiment
    from txjax.interop.huggingface import peft
    from txjax.optim.groups import find
    from txjax.types import flat_paths

    model = found.model if isinstance(found, Experiment) else found
    if getattr(model, "adapter", None) is None:
        raise UserError("--adapter", "a run with an adapter", type(model).__name__)
    params, trained = flat_paths(variables["params"]), []
    if isinstance(found, Experiment):
        own = f"/{model.adapter.name}/"
        groups = found.optimizer.tuning(found.model).groups
        trained = [path for path in params if own not in f"/{path}" and find(groups, path).trainable]
    base = found.init_from if isinstance(found, Experiment) else None
    name = base if isinstance(base, str) else getattr(base, "run", None)
    peft.save(model, params, to, trained, None if name is None else str(name))


def _nested(flat: dict[str, Any]) -> Any:
    from flax import traverse_util

    return traverse_util.unflatten_dict(flat, sep="/")
