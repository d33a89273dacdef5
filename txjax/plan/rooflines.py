"""The time of a step on GPUs, estimated as the sum of its kernels' rooflines (Williams et al. 2009).

A GPU runs a program's kernels one after the other, and its exchanges beside them. Nothing here was run: the sum says
what the compiled program would take if each kernel were as fast as published kernels of its kind.
"""

import dataclasses
from collections.abc import Callable, Mapping

from txjax.chips import Chip
from txjax.plan.collectives import Collective, collective_of
from txjax.plan.hlo import Instruction, Program
from txjax.plan.kernels import AttentionWork, work_of
from txjax.plan.traffic import is_free

# Shares of a data sheet's figures that published kernels reach.
PRODUCTS = 0.70  # of the peak; the best shape reaches 0.80 on an H100, 0.78 on a B200 (Bekman, ML Engineering, MAMF)
MEMORY = 0.87  # of the bandwidth: a copy on an H100 (github.com/aigatech/vpbenchmarking: 2,903 of 3,350 GB/s)
LINKS = 0.80  # of the links' bandwidth: rings of NCCL
LAUNCH = 1e-6  # seconds between two kernels of a CUDA graph
LATENCY = 15e-6  # seconds of an exchange of a few bytes

# cuDNN's attention on an H100 (Shah et al. 2024, FlashAttention-3, figures 5 and 6): TFLOP/s for long texts, and the
# length at which it has half of it, by the size of a head. The figures have no causal backward pass: it is as much
# slower than the other one as the causal forward pass is.
_H100 = 989.5
_ATTENTION: dict[tuple[bool, bool], dict[int, tuple[float, float]]] = {  # backward, causal
    (False, False): {64: (413, 110), 128: (600, 75)},
    (False, True): {64: (388, 355), 128: (539, 310)},
    (True, False): {64: (433, 270), 128: (520, 310)},
    (True, True): {64: (407, 515), 128: (467, 545)},
}

PARTS = ("products", "attention", "other kernels", "launches", "waiting for exchanges")


class Parts(dict[str, float]):
    """Seconds by what takes them."""

    def add(self, seconds: Mapping[str, float], times: int = 1) -> None:
        for name, value in seconds.items():
            self[name] = self.get(name, 0.0) + times * value

    def total(self) -> float:
        return sum(self.values())


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Estimated seconds of a step, by what takes them (`PARTS`).

    Exchanges that kernels hide take no time. `exchanges` is the time of all of them, hidden or not, and no part of the
    step's.
    """

    parts: dict[str, float]
    exchanges: float

    @property
    def seconds(self) -> float:
        """Of the step."""
        return sum(self.parts.values())


def estimate(program: Program, chip: Chip, bandwidth: Callable[[Collective], float]) -> Estimate:
    """The estimated time of a compiled step.

    Args:
      bandwidth: bytes/s that a device of a collective's groups sends, by the data sheets.
    """
    parts, exchanges = _Clock(program, chip, bandwidth).run(program.entry)
    return Estimate({name: parts.get(name, 0.0) for name in PARTS}, exchanges)


def attention_share(work: AttentionWork) -> float:
    """The share of the peak that cuDNN's attention reaches."""
    top, half = _ATTENTION[work.backward, work.causal][64 if work.head <= 64 else 128]
    return top / _H100 * work.length / (work.length + half)


class _Clock:
    """Runs a scheduled program on paper, with one queue of kernels and one of exchanges."""

    def __init__(self, program: Program, chip: Chip, bandwidth: Callable[[Collective], float]):
        self.program = program
        self.chip = chip
        self.bandwidth = bandwidth

    def run(self, name: str) -> tuple[Parts, float]:
        """Seconds by what takes them, and seconds of all exchanges, of one execution of a computation."""
        parts = Parts()
        exchanges = 0.0
        idle = 0.0  # when the queue of exchanges is empty
        ends: dict[str, float] = {}  # when exchanges end, by the instruction that starts them
        for instruction in self.program.computations[name].values():
            if collective := self._collective(name, instruction):
                seconds = collective.sent / self.bandwidth(collective) / LINKS + LATENCY
                exchanges += seconds
                idle = max(idle, parts.total()) + seconds
                ends[instruction.name] = idle
            if end := ends.pop(_awaited(instruction), None):
                parts.add({"waiting for exchanges": max(0.0, end - parts.total())})
            elif instruction.opcode in ("while", "call", "conditional"):
                inside, sent = self._called(instruction)
                parts.add(inside)
                exchanges += sent
            elif collective is None and not is_free(instruction):
                parts.add(self._kernel(name, instruction))
        return parts, exchanges

    def _collective(self, name: str, instruction: Instruction) -> Collective | None:
        """The collective that an instruction starts, itself or in the computation that it runs beside the kernels."""
        if instruction.opcode != "async-start":
            return collective_of(self.program, name, instruction)
        called = next(iter(instruction.called_computations()), "")
        inside = self.program.computations.get(called, {}).values()
        return next((c for i in inside if (c := collective_of(self.program, called, i))), None)

    def _called(self, instruction: Instruction) -> tuple[Parts, float]:
        """The time of the computations that an instruction runs: of branches, the slowest."""
        names = [name for name in instruction.called_computations() if name in self.program.computations]
        times = [self.run(name) for name in names]
        if instruction.opcode == "conditional":
            return max(times, key=lambda time: time[0].total())
        rounds = self.program.rounds(instruction) if instruction.opcode == "while" else 1
        parts = Parts()
        for inside, _ in times:
            parts.add(inside, rounds)
        return parts, rounds * sum(sent for _, sent in times)

    def _kernel(self, name: str, instruction: Instruction) -> dict[str, float]:
        work = work_of(self.program, name, instruction)
        moving = work.bytes / self.chip.memory_bandwidth / MEMORY
        share = attention_share(work.attention) if work.attention else PRODUCTS
        computing = work.flops / self.chip.peak_of(work.dtype) / share
        part = "attention" if work.attention else "products" if work.flops else "other kernels"
        return {part: max(computing, moving), "launches": LAUNCH}


def _awaited(instruction: Instruction) -> str:
    """The exchange for which kernels wait at an instruction: the one that it ends, or itself if it is synchronous."""
    if instruction.opcode.endswith("-done"):
        return next(iter(instruction.operands), "")
    asynchronous = instruction.opcode.endswith("-start") and '"is_sync":true' not in instruction.text
    return "" if asynchronous else instruction.name
