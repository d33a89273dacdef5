"""What XLA compiles of two steps for H100s, for several ways of computing them. Needs 'txjax[plan-gpu]' and no GPU.

    python benchmarks/gpu_variants.py

compiles each variant by `txjax plan --json`, and writes the table of docs/plan.md.
"""

import re
from typing import Any

from plans import PAGE, Plan, compile_plan

from txjax.chips import chip_named
from txjax.plan.rooflines import LAUNCH, MEMORY

TABLE = re.compile(
    r"(?<=<!-- measured by benchmarks/gpu_variants.py -->\n).*?(?=\n<!-- end of variants -->)", re.DOTALL
)
SMALL = ("GPT-2 124M", "configs/text/gpt2.py")
KERNEL = "context_parallel.kernel"
LARGE = ("Llama 7B, FSDP", "configs/text/llama.py:7B")
LARGE_FLAGS = ("batch_size=32", "mesh.data=1", "mesh.fsdp=8", "data.length=4096", "data.boundaries=False")
SMALL_FLAGS = (
    ("model.stack.remat=none",),
    ("objective.loss.chunk=None",),
    ("objective.loss.chunk=None", "model.stack.remat=none"),
    ("objective.loss.dtype=float32",),
    ("objective.loss.dtype=float32", "model.stack.remat=none"),
    ("model.stack.unroll=1",),
    ("model.stack.unroll=1", "model.stack.remat=none"),
    (f"model.mixer.{KERNEL}=reference",),
)
O1 = {"JAX_OPTIMIZATION_LEVEL": "O1"}
# A config, what the row is called besides, flags, and environment variables.
VARIANTS: tuple[tuple[tuple[str, str], str, tuple[str, ...], dict[str, str]], ...] = (
    (SMALL, "as shipped", (), {}),
    *((SMALL, f"`{' '.join(flags)}`", flags, {}) for flags in SMALL_FLAGS),
    (SMALL, "`JAX_OPTIMIZATION_LEVEL=O1`", (), O1),
    (LARGE, "`model.stack.remat=full`", (*LARGE_FLAGS, "model.stack.remat=full"), {}),
    (LARGE, "the same, `JAX_OPTIMIZATION_LEVEL=O1`", (*LARGE_FLAGS, "model.stack.remat=full"), O1),
)
HEAD = "| variant | temporaries | traffic of other kernels | kernels | products | attention | other kernels"
HEAD += " | waiting for exchanges | a step | MFU |"


def row(name: str, result: dict[str, Any]) -> str:
    """The row of a variant: what was compiled, then estimates."""
    seconds = result["step_estimate"]
    other = seconds["other kernels"] * MEMORY * chip_named("H100").memory_bandwidth
    times = [
        f"{1000 * seconds[part]:.0f} ms" for part in ("products", "attention", "other kernels", "waiting for exchanges")
    ]
    temporaries = result["bytes_parts"]["activations, temporaries"]
    compiled = f"{temporaries / 2**30:.1f} GiB | {other / 1e9:.0f} GB | {seconds['launches'] / LAUNCH:.0f}"
    return (
        f"| {name} | {compiled} | {' | '.join(times)} | {1000 * result['step_seconds']:.0f} ms | {result['mfu']:.1%} |"
    )


def main() -> None:
    lines = [HEAD, "|---" * HEAD.count(" | ") + "|---|"]
    for (model, config), variant, flags, variables in VARIANTS:
        name = f"{model}: {variant}"
        try:
            lines.append(row(name, compile_plan(Plan(config, name, "h100:8", flags), variables)))
        except RuntimeError as error:
            lines.append(f"| {name} | {error} |")
        print(lines[-1], flush=True)
    PAGE.write_text(TABLE.sub(lambda _: "\n".join(lines), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
