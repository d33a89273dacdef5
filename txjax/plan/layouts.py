"""Searches the layouts of a run: which fit its devices, and which is the fastest."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.plan.figures import Figures, figures
from txjax.plan.price import Plan, price
from txjax.plan.program import compile_step, laid_out
from txjax.plan.target import Target
from txjax.train.check import check_layout

Load = Callable[[Sequence[str]], Experiment]  # loads the config with more flags
Flags = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Choice:
    """One layout: its flags, its plan, and what it was looked for."""

    flags: Flags
    plan: Plan
    aim: str = "fastest"


def search(load: Load, target: Target, compiled: int) -> tuple[list[Choice], int]:
    """The layouts that fit, by predicted step time, and the number of layouts that were estimated.

    All meshes of data, fsdp and tensor, microbatches in powers of two and rematerialisations are estimated without the
    compiler; then the best are compiled until `compiled` of them fit.
    """
    devices = len(target.devices)
    meshes = [
        (f"data={devices // fsdp // tensor}", f"fsdp={fsdp}", f"tensor={tensor}")
        for fsdp, tensor in itertools.product(_powers(devices), (1, 2, 4, 8))
        if devices % (fsdp * tensor) == 0
    ]
    priced = list(_price_choices(load, target, meshes, least=1))
    candidates = sorted((choice for choice in priced if choice.plan.fits), key=_time)
    return sorted(_that_fit(load, target, candidates[: 3 * compiled], compiled), key=_time), len(priced)


def remedy(load: Load, target: Target) -> Choice | None:
    """A compiled layout that fits. None if none is found. Candidates are the config's mesh with more remat and smaller
    microbatches, then FSDP over all devices: of each the first that fits by estimate, then the smallest."""
    same_mesh, split = (
        [choice for choice in _price_choices(load, target, [mesh], least=load(()).microbatches) if choice.plan.fits]
        for mesh in ((), ("data=1", "fsdp=-1"))
    )
    smallest = sorted([*same_mesh, *split], key=lambda choice: choice.plan.total_bytes)
    candidates = {choice.flags: choice for choice in [*same_mesh[:1], *split[:1], *same_mesh[-1:], *smallest[:1]]}
    return next(iter(_that_fit(load, target, list(candidates.values()), 1)), None)


def plan_of(experiment: Experiment, target: Target) -> Plan:
    """The plan of a run with its own layout, compiled."""
    known = figures(experiment, target.platform)
    with laid_out(experiment, target) as layout:
        return price(experiment, known, layout, target, compile_step(experiment, layout, target.platform))


def _that_fit(load: Load, target: Target, choices: Sequence[Choice], wanted: int) -> list[Choice]:
    fitting: list[Choice] = []
    for choice in choices:
        plan = plan_of(load(choice.flags), target)
        fitting += [Choice(choice.flags, plan)] if plan.fits else []
        if len(fitting) == wanted:
            break
    return fitting


def _time(choice: Choice) -> float:
    return choice.plan.step_seconds


def _price_choices(load: Load, target: Target, meshes: Sequence[Sequence[str]], least: int) -> Iterator[Choice]:
    """The estimates of all valid combinations, those that save the least memory first."""
    remats = {remat: (f"--config.model.stack.remat={remat}",) if remat else () for remat in _remats(load(()))}
    known: dict[str | None, Figures] = {r: figures(load(flags), target.platform) for r, flags in remats.items()}
    for sizes in meshes:
        mesh = tuple(f"--config.mesh.{size}" for size in sizes)
        try:
            base = load(mesh)
            with laid_out(base, target) as layout:
                for parts, remat in itertools.product(_parts(base, least), remats):
                    flags = (*mesh, f"--config.microbatches={parts}", *remats[remat])
                    experiment = load(flags)
                    if is_possible(load, flags, target):
                        yield Choice(flags, price(experiment, known[remat], layout, target))
        except UserError:  # the mesh does not divide the model's sizes
            continue


def is_possible(load: Load, flags: Flags, target: Target) -> bool:
    """Whether batch, microbatches and mesh of the config with these flags divide each other."""
    try:
        check_layout(load(flags), len(target.devices))
    except UserError:
        return False
    return True


def _parts(experiment: Experiment, least: int) -> list[int]:
    return [n for n in _powers(experiment.batch_size) if n >= least and experiment.batch_size % n == 0]


def _remats(experiment: Experiment) -> tuple[str | None, ...]:
    """The choices of the stack's `remat`; only None if the model has no stack."""
    stack: Any = getattr(experiment.model, "stack", None)
    fields = {field.name: field for field in dataclasses.fields(stack)} if stack is not None else {}
    return fields["remat"].metadata["limits"]["choices"] if "remat" in fields else (None,)


def _powers(limit: int) -> list[int]:
    return [2**i for i in range(int(math.log2(limit)) + 1)]
