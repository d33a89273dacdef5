"""txjax merge: a run's model as inference wants it, in a workdir of its own.

Parallel branches become one kernel (RepLKNet), adapters part of the kernels that they adapt, quantized kernels float32.
The outputs are the same.
"""

from pathlib import Path

from txjax.cli.parser import Parser
from txjax.errors import UserError

SUMMARY = "merge a run's parallel branches and adapters into its kernels"


def run(argv: list[str]) -> int:
    parser = Parser("merge", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_trust()
    flags = parser.parse_args(argv)

    from txjax.checkpoint import Store
    from txjax.cli import load_run
    from txjax.cli.derived_run import write_run
    from txjax.cli.merging import weights, without_adapter, without_storage
    from txjax.io.new_folder import check_new
    from txjax.optim.groups import default_groups
    from txjax.train.run.workdir import read_checkpoints

    experiment = load_run.read(flags)
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = store.choose(flags.step)
    check_new("--to", flags.to)
    run_model = experiment.model
    model = without_storage(run_model)
    kernels = weights(store, step)
    adapted = getattr(model, "adapter", None) is not None
    branched = hasattr(model, "merged")
    if not adapted and not branched and model is run_model:
        expected = "a run of a model with parallel branches, an adapter or quantized kernels"
        raise UserError("--workdir", expected, type(model).__name__)
    if adapted:
        model, kernels = without_adapter(experiment, model, kernels)
    if branched:
        model, kernels = model.merged(kernels)
    experiment.model = model
    experiment.ema = None
    experiment.init_from = None
    experiment.optimizer.groups = default_groups()  # all parameters are trained, if a run starts from here
    write_run(flags.to, experiment, kernels, store, step, "merged")
    print(f"step {step} of {flags.workdir}, merged, in {flags.to}")
    return 0
