"""The cost of a run on some devices: parameters, FLOPs, memory, collectives, time, money."""

import collections
import dataclasses
import html
from typing import Any

from txjax.experiment import Experiment
from txjax.plan.collectives import Collective, collectives
from txjax.plan.figures import Figures
from txjax.plan.kernels import custom_kernels
from txjax.plan.minimum import between_slices, least
from txjax.plan.program import Compiled, state_bytes
from txjax.plan.rooflines import Estimate, estimate
from txjax.plan.target import Target
from txjax.plan.traffic import memory_traffic
from txjax.train.state.state import Layout


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The estimated cost of a run. Bytes are for one device, FLOPs and hours for all devices.

    Attributes:
      target: the devices.
      mesh: the mesh's axes and their sizes.
      figures: the compute and memory that do not depend on the devices.
      bytes: memory of the state, and of temporaries during a step.
      activations: of these bytes, those kept for the backward pass; an estimate.
      collectives: bytes sent in a step by kind; {} if not compiled.
      exchange_seconds: of these, or of the minimum if not compiled, at the links' bandwidth.
      minimum: lower bound of the bytes sent in a step, by purpose.
      between: lower bound of the bytes sent between slices in a step; 0 for one slice.
      traffic: bytes read from and written to memory in a step; 0 if not compiled.
      attention: the attention kernels, and why each was chosen.
      kernels: executions of custom kernels in a step.
      compile_seconds: 0 if not compiled.
      fits: whether the compiler found enough memory; if not compiled, by the estimate.
      num_steps: updates of the run.
      estimate: the step's time by its kernels, of a program that was compiled for a GPU; else None.
    """

    target: Target
    mesh: dict[str, int]
    figures: Figures
    bytes: dict[str, int]
    activations: int
    collectives: dict[str, int]
    exchange_seconds: float
    minimum: dict[str, int]
    between: int
    traffic: int
    attention: tuple[str, ...]
    kernels: int
    compile_seconds: float
    fits: bool
    num_steps: int
    estimate: Estimate | None = None

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())

    @property
    def seconds(self) -> dict[str, float]:
        """The time of each resource for one step, if it were the only limit."""
        chip = self.target.chip
        devices = len(self.target.devices)
        alone = {
            "compute": self.figures.flops_done / devices / chip.peak_flops,
            "memory": self.traffic / chip.memory_bandwidth,
            "collectives": self.exchange_seconds,
        }
        return alone | ({"between slices": self.between / chip.network} if self.between and chip.network else {})

    @property
    def least_seconds(self) -> float:
        """The roofline (Williams et al. 2009): the slowest part's time. A lower bound of the real step."""
        return max(self.seconds.values())

    @property
    def step_seconds(self) -> float:
        """The estimated time of a step; of a plan without an estimate, its lower bound."""
        return self.estimate.seconds if self.estimate else self.least_seconds

    @property
    def mfu(self) -> float:
        """FLOPs of the update over the peak FLOPs of all devices in that time (Chowdhery et al. 2022, appendix B)."""
        peak = self.target.chip.peak_flops * len(self.target.devices) * self.step_seconds
        return self.figures.flops_per_step / peak

    @property
    def device_hours(self) -> float:
        return self.num_steps * self.step_seconds * len(self.target.devices) / 3600

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        cells = (f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in self._rows())
        return f"<table>{''.join(cells)}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        from txjax.plan.summary import limit_rows, summary

        mesh = ", ".join(f"{axis} {size}" for axis, size in self.mesh.items() if size > 1) or "one device"
        return [("devices", self.target.name), ("mesh", mesh), *summary(self), *limit_rows(self.target)]

    def to_json(self, runs: int = 1, price: float | None = None) -> dict[str, Any]:
        """The plan as plain values, for `runs` runs at `price` a device-hour."""
        hours = self.device_hours * runs
        return {
            "target": self.target.name,
            "devices": len(self.target.devices),
            "mesh": self.mesh,
            "chip": self.target.devices[0].device_kind if self.target.platform != "cpu" else self.target.name,
            "params": sum(sum(part.values()) for part in self.figures.parameters.values()),
            "params_parts": self.figures.parameters,
            "flops_per_step": self.figures.flops_per_step,
            "flops_parts": self.figures.flops,
            "flops_6nd": self.six_nd,
            "flops_done": self.figures.flops_done,
            "bytes_per_device": self.total_bytes,
            "bytes_parts": self.bytes,
            "activations": self.activations,
            "device_memory": self.target.room,
            "fits": self.fits,
            "collective_bytes_per_step": sum(self.collectives.values()),
            "collective_parts": self.collectives,
            "collective_bytes_minimum": sum(self.minimum.values()),
            "collective_minimum_parts": self.minimum,
            "between_slices": self.between,
            "memory_traffic": self.traffic,
            "attention": self.attention,
            "kernels": self.kernels,
            "step_seconds": self.step_seconds,
            "step_parts": self.seconds,
            "step_seconds_least": self.least_seconds,
            "step_estimate": self.estimate.parts if self.estimate else None,
            "limits": self.target.limits,
            "mfu": self.mfu,
            "compile_seconds": self.compile_seconds,
            "device_hours": hours,
            "cost": None if price is None else hours * price,
        }

    @property
    def six_nd(self) -> int:
        """6 N D for N parameters and the D tokens or examples of a batch (Kaplan et al. 2020, section 2.1)."""
        return 6 * sum(sum(part.values()) for part in self.figures.parameters.values()) * self.figures.units


def price(
    experiment: Experiment, figures: Figures, layout: Layout, target: Target, compiled: Compiled | None = None
) -> Plan:
    """The plan of a run with a layout on a target.

    Args:
      compiled: its compiled step. If None, temporaries are an estimate, and collectives the lower bound.
    """
    mesh = experiment.mesh
    devices = len(target.devices)
    share = experiment.batch_size / experiment.microbatches / mesh.num_shards("batch", devices)
    kept = round(figures.kept * share / mesh.num_shards("length", devices))
    state = state_bytes(layout, experiment)
    program = compiled.program if compiled else None
    memory = state | {"activations, gradients (estimate)": kept + state["parameters"]}
    if compiled:
        memory = state | {"activations, temporaries": compiled.temporaries, "program": compiled.code}
    minimum = least(experiment, layout)
    placed = list(layout.batch.mesh.devices.flat)

    def bandwidth(collective: Collective) -> float:
        return target.bandwidth(collective.groups, placed)

    sent: collections.Counter[str] = collections.Counter()
    exchange_seconds = 0.0
    for collective in collectives(program) if program else ():
        sent[collective.kind] += collective.sent * collective.times
        exchange_seconds += collective.sent * collective.times / bandwidth(collective)
    if not sent:
        exchange_seconds = sum(minimum.values()) / target.bandwidth((tuple(range(devices)),), placed)
    return Plan(
        target=target,
        mesh=mesh.sizes(devices),
        figures=figures,
        bytes=memory,
        activations=kept,
        collectives=dict(sent),
        exchange_seconds=exchange_seconds,
        minimum=minimum,
        between=between_slices(experiment, layout, target.slices),
        traffic=memory_traffic(program) if program else 0,
        attention=compiled.attention if compiled else (),
        kernels=custom_kernels(program) if program else 0,
        compile_seconds=compiled.seconds if compiled else 0.0,
        fits=sum(memory.values()) <= target.room and (compiled is None or program is not None),
        num_steps=experiment.num_steps,
        estimate=estimate(program, target.chip, bandwidth) if program and target.platform == "gpu" else None,
    )
