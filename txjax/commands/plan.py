"""txjax plan: predicts memory, FLOPs, collectives, time and cost of a config on devices that need not be present."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.cli.parser import Parser
from txjax.numbers import byte_size, duration

SUMMARY = "predict memory, time and cost of a run on a TPU slice, GPUs or other devices, without them"


def run(argv: list[str]) -> int:
    parser = Parser("plan", __doc__)
    parser.add_config()
    parser.add_argument("--topology", help="a slice of a TPU pod such as v5p:4x4x4, or GPUs such as h100:8, h100:4x8")
    parser.add_argument("--slices", type=int, default=1, help="number of slices")
    parser.add_argument("--devices", type=int, help="without --topology: number of fake devices of this CPU")
    parser.add_argument("--chip", default="H100", help="the chip that each fake device stands for")
    parser.add_argument(
        "--search", action="store_true", help="try meshes, microbatches, rematerialisations and batches"
    )
    parser.add_argument("--compile", type=int, default=3, help="layouts of a search to compile until they fit")
    parser.add_argument("--price", type=float, help="price of a device-hour, in any currency")
    parser.add_argument("--runs", type=int, default=1, help="runs like this one, as in a sweep")
    parser.add_argument("--html", type=Path, help="write a page with the layout of every parameter")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags, overrides = parser.parse_known(argv)

    import jax

    jax.config.update("jax_platforms", "cpu")  # the planned devices need not be free or present
    if flags.devices and flags.devices > 0 and not flags.topology:
        jax.config.update("jax_num_cpu_devices", flags.devices)

    from txjax import config
    from txjax.changes import phases
    from txjax.experiment import with_default_eval_data
    from txjax.plan import layouts
    from txjax.plan.batch_limits import batch_limits
    from txjax.plan.layout_rows import layout_rows
    from txjax.plan.program import laid_out
    from txjax.plan.summary import change_rows, limit_rows, summary
    from txjax.plan.target import check_moments
    from txjax.train.check import check_layout
    from txjax.train.state.counting import costliest_phase

    target = _target(flags)

    def read(more: Sequence[str]) -> Any:
        experiment = with_default_eval_data(config.load(flags.config, [*overrides, *more]))
        check_moments(experiment, target)
        return experiment

    def load(more: Sequence[str]) -> Any:
        return costliest_phase(read(more)).experiment

    whole = read(())
    titles = [phase.title for phase in phases(whole)[1:]]
    changes = change_rows(phases(whole), costliest_phase(whole))

    def facts(plan: Any) -> list[tuple[str, str]]:
        return changes + summary(plan, runs=flags.runs, price=flags.price)

    limits = limit_rows(target)
    if flags.search:
        choices, looked = layouts.search(load, target, flags.compile)
        choices += batch_limits(load, target)
        if flags.json:
            plans = [{"aim": c.aim, "flags": c.flags} | c.plan.to_json(flags.runs, flags.price) for c in choices]
            print(json.dumps(plans))
        else:
            show_search(flags.config, choices, looked, facts, target.limits)
        return 0 if choices else 1

    for phase in phases(whole):
        check_layout(phase.experiment, len(target.devices))
    experiment = load(())
    plan = layouts.plan_of(experiment, target)
    with laid_out(experiment, target) as layout:
        rows = layout_rows(layout)
    if flags.html:
        from txjax.io.files import replace_text
        from txjax.report.plan_page import page

        replace_text(flags.html, page(f"{flags.config} on {target.name}", plan, rows, [*facts(plan), *limits]))
    if flags.json:
        print(json.dumps(plan.to_json(flags.runs, flags.price) | {"layout": rows, "changes": titles}))
    else:
        show(flags.config, plan, rows, [*facts(plan), *limits])
    if not plan.fits:
        _refuse(plan, layouts.remedy(load, target))
    return 0


def _target(flags: argparse.Namespace) -> Any:
    from txjax.errors import UserError
    from txjax.plan.target import fake, target_of

    if flags.topology and flags.devices:
        raise UserError("--devices", "nothing beside --topology, which says how many there are", flags.devices)
    if flags.topology:
        return target_of(flags.topology, flags.slices)
    if flags.devices is None or flags.devices < 1:
        raise UserError("txjax plan", "--topology=v5p:4x4x4 or h100:8, or --devices=8 with --chip", flags.devices)
    return fake(flags.devices, flags.chip)


def _refuse(plan: Any, remedy: Any) -> None:
    from txjax.errors import UserError
    from txjax.plan.target import MEMORY_SHARE

    room = plan.target.room
    hints = ["of what should fit near it, nothing did when it was compiled: take more devices, or try --search"]
    if remedy:
        hints = [f"{' '.join(remedy.flags)} fits, with {byte_size(remedy.plan.total_bytes)} (compiled)"]
    if plan.target.memory_share < 1:
        hints.append(f"{MEMORY_SHARE}=0.92 lets JAX take more than {plan.target.memory_share:.0%} of a device's memory")
    if plan.target.platform == "cpu":
        hints += plan.target.limits
    raise UserError(
        "config",
        f"a step that fits the {byte_size(room)} of a device",
        f"{byte_size(plan.total_bytes)}, {byte_size(max(plan.total_bytes - room, 0))} too much",
        hint="; ".join(hints),
    )


def show(config: str, plan: Any, rows: list[dict[str, Any]], facts: Sequence[tuple[str, str]]) -> None:
    """Prints a plan as tables, the summary last."""
    from txjax.log import terminal_table

    def table(*contents: Any) -> None:
        terminal_table.table(*contents)
        print()

    known = plan.figures
    total = sum(sum(part.values()) for part in known.parameters.values())
    parts = [*known.parameters, *(name for name in known.flops if name not in known.parameters)]
    lines = []
    for name in parts:
        parameters = known.parameters.get(name, {})
        flops = known.flops.get(name, 0) / known.units
        lines.append([name, f"{parameters.get('trainable', 0):,}", f"{parameters.get('frozen', 0):,}", f"{flops:,.0f}"])
    lines.append(["all", f"{total:,}", "", f"{sum(known.flops.values()) / known.units:,.0f}"])
    columns = ["component", "trainable", "frozen", f"forward FLOPs a {known.unit}"]
    table(f"{config} on {plan.target.name}", columns, lines)
    table(
        f"an update of the task {known.task}, which takes the most FLOPs" if known.task else "an update",
        ["", ""],
        [
            [f"{known.unit}s", f"{known.units:,}"],
            ["FLOPs", f"{known.flops_per_step:.4e}"],
            [f"FLOPs a {known.unit}", f"{known.flops_per_step / known.units:.4e}"],
            [f"6 N, with N = {total:,}", f"{6 * total:.4e}"],
            ["FLOPs with what is computed again", f"{known.flops_done:.4e}"],
        ],
    )
    memory = [[name, byte_size(size)] for name, size in plan.bytes.items()]
    memory.insert(-1, ["(of these waiting for the backward pass, estimate)", byte_size(plan.activations)])
    memory.append(["all", byte_size(plan.total_bytes)])
    table("memory", ["", "a device"], memory)
    sent = [[kind, byte_size(size)] for kind, size in plan.collectives.items()]
    sent += [[f"least: {what}", byte_size(size)] for what, size in plan.minimum.items() if size]
    sent += [["least: out of its slice", byte_size(plan.between)]] if plan.between else []
    least = sum(plan.minimum.values())
    ratio = f", {sum(plan.collectives.values()) / least:.2f} of the least" if least else ""
    table(f"sent by a device in a step{ratio}", ["", "a device"], sent)
    table(
        "roofline",
        ["", ""],
        [[f"{name}, if it were alone", duration(seconds)] for name, seconds in plan.seconds.items()]
        + _estimated(plan.estimate)
        + [["attention", "; ".join(plan.attention)]]
        + [["custom kernels in a step", f"{plan.kernels:,}"]]
        + [["compiling took", f"{plan.compile_seconds:.0f} s"]],
    )
    table(
        "layout",
        ["parameter", "axes", "mesh axes", "a device"],
        [[r["parameter"], r["axes"], r["partition"], byte_size(r["bytes_per_device"])] for r in rows],
    )
    terminal_table.table("summary", ["", ""], facts)


def _estimated(estimate: Any) -> list[list[str]]:
    """Rows of the estimated times of a step's parts."""
    if estimate is None:
        return []
    names = estimate.parts | {"all": estimate.seconds, "all exchanges, hidden or not": estimate.exchanges}
    return [[f"{name}, estimated", duration(t)] for name, t in names.items()]


def show_search(config: str, choices: Sequence[Any], looked: int, facts: Any, limits: Sequence[str]) -> None:
    """Prints the layouts that fit, the fastest first, and what their figures leave out."""
    from txjax.log.terminal_table import table

    lines = [[choice.aim, " ".join(choice.flags), *(value for _, value in facts(choice.plan))] for choice in choices]
    columns = ["", "flags", *(name for name, _ in facts(choices[0].plan))] if choices else [""]
    fastest = sum(choice.aim == "fastest" for choice in choices)
    table(f"{config}: {fastest} that fit (compiled), of {looked} looked at", columns, lines)
    print(*(f"limit: {limit}" for limit in limits), sep="\n", end="\n" if limits else "")
