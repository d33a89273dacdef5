"""Eight small runs in one program against one run after another, through the whole training loop."""

from typing import Any

import population
from results import Book, Record

from parts.steps import CONFIG

TITLE = "Runs of a small GPT (6 layers of width 384, 12 x 256 tokens, bfloat16) in one program"
WANTED = 5.0
FLAGS = ("--config.log_every_steps=5", "--config.checkpoint.every_steps=100000")


def run(book: Book, tiny: bool) -> None:
    steps = 10 if tiny else 100
    source = f"{CONFIG}:gpt-small{'-tiny' * tiny}"

    def timed(members: int) -> Record:
        many = population.points(source, list(FLAGS), members)
        found = population.alone(many[0], steps) if members == 1 else population.together(many, steps)
        return {"members": members, "step_ms": 1e3 * found.step, "rest_s": found.rest}

    for members in (1, 8):
        book.case(f"{members} together", lambda members=members: timed(members))


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["runs", "ms a step of all", "runs' steps a second", "times one run", "wanted"]
    found = [record["result"] for record in book.done.values() if "result" in record]
    speeds = {one["members"]: 1e3 * one["members"] / one["step_ms"] for one in found}
    rows = []
    for one in found:
        members, speed = one["members"], speeds[one["members"]]
        times = f"{speed / speeds[1]:.2f}" if 1 in speeds else None
        wanted = f"{WANTED:.0f}" if members == 8 else None
        rows.append([members, f"{one['step_ms']:.2f}", f"{speed:,.1f}", times, wanted])
    return columns, rows
