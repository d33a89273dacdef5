"""The estimate of `txjax plan --topology` for each measured step, beside its measurement, by what takes the time."""

from typing import Any

from results import Book, Record, Unavailable

from parts.device import device
from parts.steps import load, measure_kernels
from parts.train_part import SEARCH, best, step, words
from txjax import backend

TITLE = (
    "Milliseconds of a step, estimated / measured: the estimate is the sum of the rooflines of the program that was "
    "compiled here (docs/plan.md), the parts are sums over kernels in a trace of two more steps"
)
PARTS = ("products", "attention", "other kernels")


def run(book: Book, tiny: bool) -> None:
    training = Book(book.folder, "train", book.device, book.deadline, book.seconds)
    for name in ("gpt2-124M",) if tiny else SEARCH:
        if "step_ms" not in best(training, name):
            step(training, name, {}, tiny)
        fastest = best(training, name)
        if "step_ms" in fastest:
            book.case(
                f"{name} {words(fastest['flags'])}", lambda name=name, fastest=fastest: _beside(name, fastest, tiny)
            )


def _beside(name: str, fastest: Record, tiny: bool) -> Record:
    if backend.platform() != "gpu":
        raise Unavailable(f"kernels are estimated for GPUs, and this is {device()}")
    return {"step_ms": fastest["step_ms"], **measure_kernels(load(name, fastest["flags"], tiny))}


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["model and flags", "step", "estimated / measured", *PARTS, "between kernels, measured"]
    rows = []
    for name, record in book.done.items():
        if result := record.get("result"):
            estimated, measured = result["estimated"], result["measured"]
            total, step_ms = sum(estimated.values()), result["step_ms"]
            parts = [f"{estimated.get(part, 0):.1f} / {measured.get(part, 0):.1f}" for part in PARTS]
            idle = f"{step_ms - sum(measured.values()):.1f}"
            rows.append([name, f"{total:.1f} / {step_ms:.1f}", f"{total / step_ms:.2f}", *parts, idle])
    return columns, rows
