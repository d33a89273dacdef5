"""txjax against PyTorch on the same cores: whole updates of small models, in one run.

    python benchmarks/against_torch.py [--dtype=float32|bfloat16] [--rounds=9] [--steps=2]
        [--models=gpt,bert,vit,transformer,t5,electra,deberta,swin,convnext,detr,conformer,branchformer,ast,speech2text,
        clip,llava,vilbert,unit]

Needs torch in the same environment (`pip install torch==2.13.0`); CLIP, LLaVA and the models of audio need
transformers, too, and the Branchformer ESPnet (`pip install --no-deps espnet==202511 typeguard`). Every contender runs
in its own process; in each round, each in turn does the same number of updates (forward, backward, clipping, AdamW).
Prints medians and ratios; for a contender that fails, its last line.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import contenders

CONTENDERS = ("txjax", "torch", "torch.compile")
MODELS = "gpt,bert,vit,transformer,t5,electra,deberta,swin,convnext,detr,conformer,branchformer,ast,speech2text"
MODELS += ",clip,llava,vilbert,unit"


def txjax_update(name: str, dtype: str) -> tuple[Callable[[], Any], int]:
    """One update of the model by the framework's own step, and the number of parameters."""
    from txjax.backend import prepare

    for note in prepare():
        print(note, file=sys.stderr)
    import jax
    from models import SIZES, experiment, made_up  # beside this file

    from txjax import sharding
    from txjax.train.state.state import build_layout
    from txjax.train.step import jit_step

    run = experiment(name, SIZES[name], dtype)
    kept: dict[str, Any] = {}
    scope = sharding.use_mesh(run.mesh)
    built = scope.__enter__()
    layout = build_layout(run, built)
    kept["state"] = layout.create(0)
    step = jit_step(run, layout)
    batch = jax.device_put(made_up(run), layout.batch)

    def update() -> None:
        kept["state"], metrics = step(kept["state"], batch)
        jax.block_until_ready(metrics["loss"])

    return update, layout.parameters


def torch_update(name: str, dtype: str, compiled: bool) -> tuple[Callable[[], Any], int]:
    """The same in PyTorch."""
    import torch
    import torch_models
    from models import SIZES

    return torch_models.update_of(name, SIZES[name], dtype, "cpu", torch.compile if compiled else lambda model: model)


def work(contender: str, name: str, dtype: str) -> tuple[Callable[[], Any], dict[str, Any]]:
    """One update of the model by a contender, and facts about it."""
    if contender == "txjax":
        update, parameters = txjax_update(name, dtype)
    else:
        update, parameters = torch_update(name, dtype, contender == "torch.compile")
    return update, {"parameters": parameters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument(
        "--clock", default="wall", choices=tuple(contenders.CLOCKS), help="cpu: for one core of a busy machine"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        clock = contenders.CLOCKS[flags.clock]
        contenders.serve(lambda: work(flags.worker, flags.models, flags.dtype), clock)
        return
    from txjax.log.terminal_table import table

    rows = []
    for name in flags.models.split(","):
        own = [sys.executable, __file__, f"--models={name}", f"--dtype={flags.dtype}", f"--clock={flags.clock}"]
        commands = {contender: [*own, f"--worker={contender}"] for contender in flags.contenders.split(",")}
        found, failed = contenders.race(commands, flags.rounds, flags.steps)
        for contender, error in failed.items():
            print(f"{name}: {contender} failed: {error}", file=sys.stderr)
        base = found.get("torch") or next(iter(found.values()), {})
        for contender, seen in found.items():
            ratio = contenders.ratio(seen["seconds"], base["seconds"])
            middle, least = statistics.median(seen["seconds"]), min(seen["seconds"])
            rows.append([name, contender, f"{seen['parameters']:,}", f"{1e3 * middle:.0f}", f"{1e3 * least:.0f}"])
            rows[-1] += [f"{middle / statistics.median(base['seconds']):.2f}", f"{ratio:.2f}", f"{seen['first']:.1f}"]
    title = f"{flags.dtype}, {os.cpu_count()} cores: milliseconds an update, {flags.rounds} rounds of {flags.steps}"
    head = ["model", "contender", "parameters", "median", "least", "/ torch", "by pairs", "first step s"]
    table(title, head, rows)


if __name__ == "__main__":
    main()
