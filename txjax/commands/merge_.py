"""txjax merge: a run's model as inference wants it, in a workdir of its own.

Parallel branches become one kernel (RepLKNet), adapters part of the kernels that they adapt. The outputs are the same.
"""

from pathlib import Path

from txjax.cli.parser import Parser
from txjax.types import UserError

SUMMARY = "merge a run's parallel branches and adapters into its kernels"


def run(argv: list[str]) -> int:
    parser = Parser("merge", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_trust()
    flags = parser.parse_args(argv)

    import jax

    from txjax.checkpoint import Store
    from txjax.cli import load_run
    from txjax.cli.merging import weights, without_adapter
    from txjax.io import digest
    from txjax.optim.groups import default_groups
    from txjax.train.workdir import lock_workdir, read_checkpoints, write_config, write_manifest

    experiment = load_run.read(flags)
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = store.choose(flags.step)
    if (flags.to / "config.json").exists():
        raise UserError("--to", "a new folder", str(flags.to), hint="there is a run in it")
    model, kernels = experiment.model, weights(store, step)
    adapted, branched = getattr(model, "adapter", None) is not None, hasattr(model, "merged")
    if not adapted and not branched:
        got = type(model).__name__
        raise UserError("--workdir", "a run of a model with parallel branches or an adapter", got)
    if adapted:
        model, kernels = without_adapter(experiment, model, kernels)
    if branched:
        model, kernels = model.merged(kernels)
    experiment.model, experiment.ema, experiment.init_from = model, None, None
    experiment.optimizer.groups = default_groups()  # all parameters are trained, if a run starts from here
    origins = [{"run": str(flags.workdir.resolve()), "step": step, "digest": digest.of_all(store.path(step))}]
    state = {name: tree for name, tree in kernels.items() if name != "params"}
    parts = {"params": kernels["params"], "frozen": {}, "model_state": state}
    with lock_workdir(flags.to) as workdir:
        new = Store(workdir)
        new.save_parts(step, {"weights": jax.tree.map(jax.numpy.asarray, parts)}, {"merged": origins, "metrics": {}})
        new.wait()
        count = sum(leaf.size for leaf in jax.tree.leaves(kernels["params"]))
        write_manifest(workdir, {}, {"parameters": count, "flops_per_step": 0}, origins=origins)
        write_config(workdir, experiment)
    print(f"step {step} of {flags.workdir}, merged, in {flags.to}")
    return 0
