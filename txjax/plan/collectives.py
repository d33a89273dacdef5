"""Exchanges between devices in a compiled program: their groups, and the bytes that a device sends."""

import dataclasses
import math
import re

import numpy as np

from txjax.plan.hlo import Instruction, Program

Groups = tuple[tuple[int, ...], ...]  # positions of devices in the mesh

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
_GROUPS = "replica_groups="
_PERMUTED = r"(?:T\(([\d,]+)\))?"


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a program.

    Attributes:
      kind: `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all` or `collective-permute`.
      devices: number of devices in a group.
      sent: bytes that one device sends each time, by a ring algorithm.
      times: executions in one step.
      where: `op_name` of the source operation.
      groups: the devices that exchange with each other: groups, or pairs of a source and a target.
    """

    kind: str
    devices: int
    sent: int
    times: int
    where: str
    groups: Groups = ()


def collectives(program: Program) -> list[Collective]:
    """All collectives of one step.

    A collective split into a chain, to overlap with compute, counts once. Copies of one before and in a loop share a
    channel, and both count.
    """
    by_key: dict[tuple[str, ...], Collective] = {}
    for computation, instruction in program.instructions():
        collective = collective_of(program, computation, instruction)
        if collective is None:
            continue
        channel, chain = (re.search(rf'{word}="?(\d+)', instruction.text) for word in ("channel_id", "chain_id"))
        key = (channel[1], "chain", chain[1]) if channel and chain else (instruction.name, program.home[computation])
        if key in by_key:  # parts of a chain outside a loop run once, those in it in every iteration
            collective = dataclasses.replace(collective, times=min(collective.times, by_key[key].times))
        by_key[key] = collective
    return list(by_key.values())


def collective_of(program: Program, computation: str, instruction: Instruction) -> Collective | None:
    """The collective that an instruction is, or starts. None for other instructions, and for groups of one device."""
    kind = instruction.opcode.removesuffix("-start")
    if kind not in KINDS:
        return None
    groups = groups_of(instruction.text)
    devices = len(groups[0]) if groups else 1
    if devices == 1:
        return None
    sent = _sent_bytes(kind, devices, program.computations[computation], instruction)
    if kind == "all-reduce" and computation.startswith("all-reduce-scatter"):
        kind = "reduce-scatter"
        sent = sent // 2
    where = re.search(r'op_name="([^"]*)"', instruction.text)
    return Collective(kind, devices, sent, program.runs[computation], where[1] if where else "", groups)


def _sent_bytes(kind: str, devices: int, inside: dict[str, Instruction], instruction: Instruction) -> int:
    """The bytes that each device of a group sends."""
    if kind == "collective-permute":
        return instruction.arrays[0].bytes
    size = sum(array.bytes for array in instruction.arrays)
    operands = [a for name in instruction.operands if name in inside for a in inside[name].arrays]
    if instruction.opcode.endswith("-start") and len(instruction.arrays) > len(operands):  # its outputs include them
        size -= sum(array.bytes for array in operands)
    ways = {"all-reduce": 2 * (devices - 1) / devices, "reduce-scatter": devices - 1.0}
    return round(size * ways.get(kind, (devices - 1) / devices))


def groups_of(text: str) -> Groups:
    """The groups of an instruction's devices, in any of XLA's four notations; () for none."""
    if pairs := re.search(r"source_target_pairs=\{(\{[\d,{}]*\})\}", text):
        return _listed(pairs[1])
    _, _, groups = text.partition(_GROUPS)
    if mesh := re.match(r"mesh\[([^\]]*)\]([^{]*)\{([^}]*)\}", groups):
        sizes = {axis: int(size) for axis, size in re.findall(r"'([^']+)'=(\d+)", mesh[1])}
        inside = [axis for axis in re.findall(r"'([^']+)'", mesh[3]) if axis in sizes]
        order = [*(axis for axis in sizes if axis not in inside), *inside]
        ids = _device_ids(mesh[2], math.prod(sizes.values())).reshape(*sizes.values())
        ids = ids.transpose([list(sizes).index(axis) for axis in order])
        return _rows(ids.reshape(-1, math.prod(sizes[axis] for axis in inside)))
    if iota := re.match(rf"\[(\d+),(\d+)\]<=\[([\d,]+)\]{_PERMUTED}", groups):
        return _rows(_iota(iota[3], iota[4]).reshape(int(iota[1]), int(iota[2])))
    listed = re.match(r"\{(\{[\d,{}]*\})\}", groups)
    return _listed(listed[1]) if listed else ()


def _device_ids(text: str, count: int) -> np.ndarray:
    """The devices along a mesh: in their order if no other one is stated."""
    if iota := re.search(rf"device_ids=\(\[[\d,]+\]<=\[([\d,]+)\]{_PERMUTED}\)", text):
        return _iota(iota[1], iota[2])
    listed = re.search(r"device_ids=\(([\d,]+)\)", text)
    return np.array(listed[1].split(","), int) if listed else np.arange(count)


def _iota(shape: str, permutation: str | None) -> np.ndarray:
    """0, 1, ... as an array of this shape, transposed."""
    sizes = [int(size) for size in shape.split(",")]
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    return ids.transpose([int(axis) for axis in permutation.split(",")]) if permutation else ids


def _listed(text: str) -> Groups:
    return tuple(tuple(map(int, group.split(","))) for group in re.findall(r"\{([\d,]+)\}", text))


def _rows(ids: np.ndarray) -> Groups:
    return tuple(tuple(int(i) for i in row) for row in ids)
