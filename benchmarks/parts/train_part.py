"""Training steps of each model, in bfloat16 and float8, at the best flags that a small search finds."""

import contextlib
import functools
from typing import Any

from full_size import SIZES
from results import Book, Record

from parts.device import has_fp8
from parts.steps import compiled_step, load, measure, rate, share, size

TITLE = "Training steps, bfloat16 activations and float32 parameters; MFU of float8 is of the bfloat16 peak, too"
WANTED = {"gpt2-124M": 0.40, "gpt2-350M": 0.45, "vit-b16": 0.40, "bert-base": 0.45, "llama-1B": 0.50}
Flags = dict[str, Any]

BATCH, REMAT, UNROLL = "batch_size", "model.stack.remat", "model.stack.unroll"
KERNEL, CHUNK = "model.mixer.context_parallel.kernel", "objective.loss.chunk"
_KERNELS: list[Flags] = [{KERNEL: "reference"}, {KERNEL: "tokamax"}]
# One axis after the other; every choice of an axis is combined with the best flags so far.
SEARCH: dict[str, list[list[Flags]]] = {
    "gpt2-124M": [
        [{BATCH: 64}],
        _KERNELS,
        [{BATCH: 32}],
        [{CHUNK: 256}],
        [{UNROLL: 1}],
        [{REMAT: "minimal"}, {BATCH: 128, REMAT: "attention"}],
    ],
    "gpt2-350M": [
        [{BATCH: 32}],
        [{KERNEL: "tokamax"}],
        [{BATCH: 16}],
        [{CHUNK: 256}],
        [],
        [{BATCH: 64, REMAT: "minimal"}],
    ],
    "bert-base": [[{BATCH: 512}], _KERNELS, [{BATCH: 256}], [], [{UNROLL: 1}], [{REMAT: "minimal"}]],
    "vit-b16": [[{BATCH: 256}], _KERNELS, [{BATCH: 128}], [], [{UNROLL: 1}], [{REMAT: "minimal"}]],
    "llama-1B": [
        [{BATCH: 8}],
        [{KERNEL: "tokamax"}],
        [{BATCH: 4}],
        [{CHUNK: 256}],
        [],
        [{BATCH: 16, REMAT: "minimal"}, {BATCH: 16, REMAT: "full"}],
    ],
}
FP8: Flags = {"model.quantize": 'Quantize(dtype="float8_e4m3fn",gradients="float8_e5m2")'}
_TINY: list[list[Flags]] = [[{BATCH: 2}], [{CHUNK: 16, REMAT: "minimal"}]]


def search(tiny: bool) -> dict[str, list[list[Flags]]]:
    """The flags by model; of two that differ only in size, the tiny run has one."""
    if not tiny:
        return SEARCH
    return {name: _TINY[: 1 + (name == "gpt2-124M")] for name in SEARCH if name != "gpt2-350M"}


def run(book: Book, tiny: bool) -> None:
    """All models by the first axis, then in float8, then by the others: the deadline may skip the last ones."""
    axes = search(tiny)
    for i in range(max(map(len, axes.values()))):
        for name, choices in axes.items():
            for choice in choices[i] if i < len(choices) else []:
                step(book, name, best(book, name)["flags"] | choice, tiny)
        if i == 0:
            for name in ["gpt2-124M"] if tiny else axes if has_fp8() else []:
                step(book, name, best(book, name)["flags"] | FP8, tiny)


def compile_first(name: str, tiny: bool) -> None:
    """Compiles the steps of a model's first axis, which JAX's compilation cache keeps."""
    for flags in search(tiny)[name][0]:
        with contextlib.suppress(Exception), compiled_step(load(name, flags, tiny)):
            pass  # what can't be compiled fails again when it is measured


def step(book: Book, name: str, flags: Flags, tiny: bool) -> Record | None:
    """A step with these flags, timed."""

    def timed() -> Record:
        found = measure(load(name, flags, tiny), steps=2 if tiny else 10, rounds=2 if tiny else 5)
        return {"model": name, "flags": flags, **found}

    return book.case(f"{name} {words(flags)}", timed)


def best(book: Book, name: str, fp8: bool = False, part: str | None = None) -> dict[str, Any]:
    """The fastest measured step of a model; {"flags": {}} if there is none."""
    results = [record["result"] for record in book.read(part).values() if "result" in record]
    mine = [found for found in results if found["model"] == name and (FP8.items() <= found["flags"].items()) == fp8]
    return max(mine, key=lambda found: found["examples_per_s"], default={"flags": {}})


def words(flags: Flags) -> str:
    """Flags as typed, without `--config.`."""
    return " ".join(f"{field}={value}" for field, value in flags.items()) or "default"


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["model", "products", "ms a step", "a second", "MFU", "wanted", "program's memory", "flags", "of"]
    tried = functools.partial(_tried, book)
    rows = []
    for name in SIZES:
        for fp8 in (False, True):
            found = best(book, name, fp8)
            if "step_ms" not in found:
                continue
            wanted = share(WANTED.get(name)) if not fp8 else None
            row = [name, "float8" if fp8 else "bfloat16", f"{found['step_ms']:.1f}", rate(found), share(found["mfu"])]
            flags = f"`{words({k: v for k, v in found['flags'].items() if k not in FP8})}`"
            rows.append([*row, wanted, size(found["program_bytes"]), flags, tried(name)])
    return columns, rows


def _tried(book: Book, name: str) -> str:
    cases = [record for record in book.done.values() if record["case"].startswith(f"{name} ")]
    failed = sum("error" in record for record in cases)
    return f"{len(cases)} tried" + (f", {failed} failed" if failed else "")
