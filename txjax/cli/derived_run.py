"""A workdir that a command makes of a step of another run: `merge` and `quantize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax.types import PyTree


def write_run(to: Path, source: Any, variables: PyTree, store: Any, step: int, origins_key: str) -> None:
    """Writes a workdir with one step.

    Args:
      source: its experiment, or a model alone.
      variables: the model's.
      store, step: where they are from.
      origins_key: the key of the record that says so, such as "merged".
    """
    import jax

    from txjax.checkpoint import Store
    from txjax.experiment import Experiment
    from txjax.io import digest
    from txjax.io.kept_files import inherit_files
    from txjax.io.new_folder import new_folder
    from txjax.nn import parameter_sizes
    from txjax.train.run.workdir import write_config, write_manifest
    from txjax.train.state.subtrees import pick

    run = store.folder.parent
    origins = [{"run": str(run), "step": step, "digest": digest.of_all(store.path(step))}]
    trained = source.optimizer.tuning(source.model).trained if isinstance(source, Experiment) else lambda path: True
    params = variables["params"]
    parts = {"params": pick(params, trained), "frozen": pick(params, lambda path: not trained(path))}
    parts["model_state"] = {name: tree for name, tree in variables.items() if name != "params"}
    with new_folder("--to", to) as workdir:
        inherit_files(workdir, [run])
        new = Store(workdir)
        new.save_parts(step, {"weights": jax.tree.map(jax.numpy.asarray, parts)}, {origins_key: origins, "metrics": {}})
        new.wait()
        count = sum(parameter_sizes(params).values())
        write_manifest(workdir, {}, {"parameters": count, "flops_per_step": 0}, origins=origins)
        write_config(workdir, source)
