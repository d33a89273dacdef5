"""PyTorch's step of the same models, compiled, with its fused attention and AdamW, beside txjax's best."""

import functools
import math
import statistics
import time
from typing import Any

from full_size import SIZES, TINY
from results import Book, Record

from parts.steps import rate, share
from parts.train_part import BATCH, SEARCH, best, search

TITLE = (
    "PyTorch (torch.compile, scaled_dot_product_attention, bfloat16 autocast, fused AdamW) at its best batch size, "
    "beside txjax at its best flags"
)


def run(book: Book, tiny: bool) -> None:
    """All models at the batch size of txjax's best step, then at the others that the search tried."""
    sizes = {name: _batches(book, name, tiny) for name in search(tiny)}
    for i in range(max(map(len, sizes.values()))):
        for name, batches in sizes.items():
            for batch in batches[i : i + 1]:
                book.case(f"{name} batch={batch}", functools.partial(_timed, name, batch, tiny))


def _batches(book: Book, name: str, tiny: bool) -> list[int]:
    ours = best(book, name, part="train")["flags"].get(BATCH)
    tried = [TINY[name][1]["batch"]] if tiny else [choice[BATCH] for choice in SEARCH[name][0]]
    return list(dict.fromkeys([*([ours] if ours else []), *reversed(tried)]))


def _timed(name: str, batch: int, tiny: bool) -> Record:
    import torch
    import torch_models

    kind, size = (TINY if tiny else SIZES)[name]
    on, rounds, steps = "cuda" if torch.cuda.is_available() else "cpu", 1 if tiny else 5, 1 if tiny else 10
    torch.set_float32_matmul_precision("high")
    # Inductor takes half a minute for a program on a CPU; a tiny run only tests the code before it.
    compiled = functools.partial(torch.compile, backend="eager" if tiny else "inductor")
    update, parameters = torch_models.update_of(kind, size | {"batch": batch}, "bfloat16", on, compiled)
    began = time.perf_counter()
    for _ in range(1 if tiny else 3):
        loss = update()
    first, seconds = float(loss), []
    compile_seconds = time.perf_counter() - began
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(steps):
            loss = update()
        last = float(loss)  # waits for the device
        seconds.append((time.perf_counter() - began) / steps)
    if not math.isfinite(first + last):
        raise FloatingPointError(f"the loss is {last}")
    torch._dynamo.reset()
    if on == "cuda":
        del update, loss
        torch.cuda.empty_cache()
    step = statistics.median(seconds)
    return {
        "model": name,
        "flags": {BATCH: batch},
        "parameters": parameters,
        "step_ms": 1e3 * step,
        "examples_per_s": batch / step,
        "first_steps_s": compile_seconds,
        "torch": torch.__version__,
    }


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["model", "PyTorch: batch", "ms a step", "a second", "MFU", "txjax: a second", "txjax / PyTorch"]
    rows = []
    for name in SEARCH:
        found, ours = best(book, name), best(book, name, part="train")
        if "step_ms" not in found:
            continue
        row = [name, found["flags"][BATCH], f"{found['step_ms']:.1f}"]
        if "step_ms" not in ours:
            rows.append([*row, f"{found['examples_per_s']:,.0f} examples", None, None, None])
            continue
        ratio = ours["examples_per_s"] / found["examples_per_s"]
        mfu = ours["mfu"] / ratio if ours["mfu"] else None  # the same model has the same FLOPs
        rows.append([*row, rate(ours | found), share(mfu), rate(ours), f"{ratio:.2f}"])
    return columns, rows
