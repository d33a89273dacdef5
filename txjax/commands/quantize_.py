"""txjax quantize: a run with the kernels of its layers in eight or four bits, to be frozen under an adapter.

A run starts from it with `model.storage` set to the value that this prints, and `init_from` to the new folder.
"""

from pathlib import Path

from txjax.cli.parser import Parser
from txjax.errors import UserError

SUMMARY = "make a run with quantized kernels, for adapters (QLoRA)"


def run(argv: list[str]) -> int:
    parser = Parser("quantize", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_argument(
        "--storage", default="QuantizedKernels()", help="default: %(default)s, four bits in tiles of 64"
    )
    parser.add_trust()
    flags = parser.parse_args(argv)

    import jax.numpy as jnp
    from flax import traverse_util

    from txjax.backend import prepare
    from txjax.checkpoint import Store
    from txjax.cli.derived_run import write_run
    from txjax.cli.merging import weights
    from txjax.cli.model_axes import model_axes
    from txjax.components import ConfigSlot
    from txjax.experiment import Experiment
    from txjax.io.new_folder import check_new
    from txjax.modules import trusted_modules
    from txjax.nn import QuantizedKernels, stored_parts
    from txjax.optim import train_all_but
    from txjax.train.run.workdir import read_checkpoints, read_config
    from txjax.tree import check_fields
    from txjax.types import flat_paths

    prepare()
    check_new("--to", flags.to)
    storage = ConfigSlot("--storage", QuantizedKernels).read(flags.storage)
    check_fields(storage, "--storage")
    loaded = read_config(flags.workdir, trusted_modules(flags.trust))
    model = loaded.model if isinstance(loaded, Experiment) else loaded
    for field, hint in {"adapter": "`txjax merge` makes one", "storage": "its kernels are quantized"}.items():
        if (value := getattr(model, field, None)) is not None:
            raise UserError("--workdir", f"a run without model.{field}", type(value).__name__, hint=hint)
    model = model.clone(storage=storage)
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = store.choose(flags.step)
    variables = weights(store, step)
    params = flat_paths(variables["params"])
    before = sum(x.nbytes for x in params.values())
    axes = model_axes(loaded, model, params)
    for kernel in sorted({*stored_parts(axes).values()}):
        parts = storage.quantized(jnp.asarray(params.pop(kernel)), axes[f"{kernel}/{storage.format}"])
        params |= {f"{kernel}/{name}": x for name, x in parts.items()}
    after = sum(x.nbytes for x in params.values())
    variables["params"] = traverse_util.unflatten_dict(params, sep="/")
    if isinstance(loaded, Experiment):
        loaded.model = model
        loaded.ema = None
        loaded.init_from = None
        loaded.optimizer.groups = train_all_but(rf".*/kernel/({storage.format}|scale)")
    write_run(flags.to, loaded if isinstance(loaded, Experiment) else model, variables, store, step, "quantized")
    print(f"step {step} of {flags.workdir} in {flags.to}: {before:,} bytes of parameters are {after:,}; for a run that")
    print(f"starts there: --config.model.storage='{flags.storage}' --config.init_from={flags.to}")
    return 0
