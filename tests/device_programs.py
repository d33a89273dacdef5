"""What XLA compiles of one layer of four families for one and eight H100s and eight TPU v5e: device_programs.json.

    python tests/device_programs.py [gpt2 ...]    compiles them, and writes what changed

It needs the extras `plan` and `plan-gpu`, and no such device. A commit that changes the file says why.
`tests/plan/test_device_programs.py` compares the programs of the code with it.
"""

import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax

from txjax import config
from txjax.experiment import Experiment, with_default_eval_data
from txjax.plan.program import compile_step, laid_out
from txjax.plan.target import target_of
from txjax.plan.traffic import memory_traffic

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).with_suffix(".json")
EXAMPLES = 8  # of a device
TOPOLOGIES = {"h100:1": 1, "h100:8": 8, "v5e:2x4": 8}  # with their devices
_SPLIT = ("mesh.data=1", "mesh.fsdp=-1")
_PACKED = "model.mixer.context_parallel.kernel=packed"
# A config, its flags, and where it is compiled. The sizes of the layers are the published ones.
LAYERS = {
    "gpt2": ("text/gpt2.py", (), TOPOLOGIES),
    "llama": ("text/llama.py:125M", _SPLIT, TOPOLOGIES),  # several documents in a row of tokens
    "llama_packed": ("text/llama.py:125M", (*_SPLIT, _PACKED), ("h100:1", "h100:8")),
    "vit": ("vision/vit_imagenet.py", ("model.stack.remat=none",), TOPOLOGIES),
    "bert": ("text/bert_base.py", (), TOPOLOGIES),
}
NAMES = [f"{layer} {topology}" for layer, (_, _, topologies) in LAYERS.items() for topology in topologies]


def experiment(name: str) -> tuple[Experiment, str]:
    """The experiment of one layer, and its topology."""
    layer, topology = name.split()
    file, flags, _ = LAYERS[layer]
    size = EXAMPLES * TOPOLOGIES[topology]
    more = [f"--config.{flag}" for flag in (*flags, "model.depth=1", f"batch_size={size}", "microbatches=1")]
    return with_default_eval_data(config.load(str(ROOT / "configs" / file), more)), topology


def measured(name: str) -> dict[str, Any]:
    """Custom calls by their functions, gathers that kernels wait for, bytes of temporaries and of memory traffic."""
    one_layer, topology = experiment(name)
    target = target_of(topology)
    with laid_out(one_layer, target) as layout:
        compiled = compile_step(one_layer, layout, target.platform)
    program = compiled.program
    assert program is not None
    calls: collections.Counter[str] = collections.Counter()
    synchronous = 0
    for computation, instruction in program.instructions():
        if instruction.target:
            calls[instruction.target] += program.runs[computation]
        gather = re.match(r"all-gather(-start)?$", instruction.opcode)
        synchronous += bool(gather and ('"is_sync":true' in instruction.text or not gather[1]))
    return {
        "custom_calls": dict(sorted(calls.items())),
        "synchronous_gathers": synchronous,
        "temporaries": compiled.temporaries,
        "traffic": memory_traffic(program),
    }


def reference() -> dict[str, Any]:
    """The stored figures by name, and `jax`, the version that compiled them."""
    return json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}


def main(layers: list[str]) -> None:
    stored = {name: figures for name, figures in reference().items() if name in NAMES}
    for name in NAMES:
        if not layers or name.split()[0] in layers:
            stored[name] = measured(name)
            print(name, json.dumps(stored[name]), flush=True)
            REFERENCE.write_text(json.dumps({"jax": jax.__version__} | stored, indent=2) + "\n")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    main(sys.argv[1:])
