"""Warnings about txjax runs as data for a law: problems of how they were trained."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from txjax.errors import join_names

Row = Mapping[str, Any]  # a record: a run's flat config, sizes and metrics

REPEATS = 4.0  # epochs up to which repeated tokens are almost as good as fresh ones (Muennighoff et al. 2023)
SLACK = 1.1  # a ladder rounds its warmups to whole steps
ENDLESS = ("Constant", "InverseSquareRoot")  # schedules without an end


def run_diagnostics(rows: Sequence[Row]) -> Iterator[str]:
    """Warnings about the runs of these rows, each with the runs it applies to."""
    runs = {row["run"] for row in rows}
    for holds, message in _DOUBTS:
        names = list(dict.fromkeys(str(row["run"]) for row in rows if holds(row)))
        if names:
            yield f"{len(names)} of {len(runs)} runs {message}: {join_names(names)}"


def _warms_up_long(row: Row) -> bool:
    steps = row["step"]
    warmup = row.get("optimizer.schedule.warmup_steps")
    if not (steps and warmup and row["tokens"] and row["parameters"]):
        return False
    return warmup * row["tokens"] / steps > SLACK * row["parameters"]


def _never_decays(row: Row) -> bool:
    kind = str(row.get("optimizer.schedule.class", "")).rpartition(".")[2]
    return kind in ENDLESS or row.get("optimizer.schedule.final") == 1


def _repeats(row: Row) -> bool:
    return bool(row.get("unique_tokens")) and row["tokens"] > REPEATS * row["unique_tokens"]


_DOUBTS: tuple[tuple[Callable[[Row], bool], str], ...] = (
    (
        _warms_up_long,
        "warm up over more tokens than they have parameters, which hurts small ones (Porian et al. 2024)",
    ),
    (
        _never_decays,
        "end at a learning rate that never decayed, so their losses are above those of a schedule that decays by then",
    ),
    (
        _repeats,
        f"see their tokens more than {REPEATS:g} times; --form=data_constrained models repeated tokens",
    ),
)
