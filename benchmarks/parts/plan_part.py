"""What `txjax plan` predicts for a step on this chip, beside the step that `train` measured."""

from typing import Any

from results import Book, Record

from parts.device import chip_name
from parts.steps import load, share, size
from parts.train_part import SEARCH, best, step, words
from txjax.plan.layouts import plan_of
from txjax.plan.target import fake

TITLE = (
    "A step as `txjax plan --devices=1` predicts it (a lower bound of its time; memory by the compiler for CPUs, which "
    "has no flash attention), beside the measured one"
)


def run(book: Book, tiny: bool) -> None:
    training = Book(book.folder, "train", book.device, book.deadline, book.seconds)
    for name in ("gpt2-124M",) if tiny else SEARCH:
        if "step_ms" not in best(training, name):
            step(training, name, {}, tiny)
        found = best(training, name)
        if "step_ms" in found:
            book.case(f"{name} {words(found['flags'])}", lambda name=name, found=found: _beside(name, found, tiny))


def _beside(name: str, measured: Record, tiny: bool) -> Record:
    plan = plan_of(load(name, measured["flags"], tiny), fake(1, chip_name()))
    return {
        "chip": chip_name(),
        "predicted_ms": 1e3 * plan.step_seconds,
        "predicted_mfu": plan.mfu,
        "predicted_bytes": plan.total_bytes,
        "measured_ms": measured["step_ms"],
        "measured_mfu": measured["mfu"],
        "program_bytes": measured["program_bytes"],
        "peak_bytes": measured["peak_bytes"],
    }


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["model and flags", "chip", "predicted ms", "measured ms", "ratio", "predicted MFU", "measured MFU"]
    columns += ["predicted memory", "measured program's", "measured peak"]
    rows = []
    for name, record in book.done.items():
        if found := record.get("result"):
            predicted, measured = found["predicted_ms"], found["measured_ms"]
            row = [name, found["chip"], f"{predicted:.3g}", f"{measured:.3g}", f"{measured / predicted:.2f}"]
            row += [share(found["predicted_mfu"]), share(found["measured_mfu"])]
            rows.append(row + [size(found[key]) for key in ("predicted_bytes", "program_bytes", "peak_bytes")])
    return columns, rows
