"""Parses a compiled program's HLO text: executions of computations, collectives, and memory traffic."""

import dataclasses
import math
import re
from collections.abc import Iterator

_BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "c64": 8, "c128": 16}  # others have their bits in the name
_NAME = r"%?([\w.\-]+)"
_INSTRUCTION = re.compile(rf"^\s+(ROOT )?{_NAME} = (.*)$")
_HEADER = re.compile(rf"^(ENTRY )?{_NAME} \(.*\{{$")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
_CALLED = re.compile(rf"(?:calls|to_apply|body|condition|true_computation|false_computation)={_NAME}")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
# Opcodes that move no memory, or whose bodies are counted separately.
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "copy-done", "slice-done", "async-done", "iota", "partition-id", "replica-id",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a program. `near`: it is in on-chip memory and uses no HBM bandwidth."""

    dtype: str
    shape: tuple[int, ...]
    near: bool

    @property
    def bytes(self) -> int:
        digits = re.sub(r"\D", "", self.dtype[1:3] if self.dtype.startswith("f8") else self.dtype)
        return math.prod(self.shape) * _BYTES.get(self.dtype, int(digits or 0) // 8)


@dataclasses.dataclass(frozen=True)
class Instruction:
    name: str
    opcode: str
    arrays: tuple[Array, ...]  # its outputs
    operands: tuple[str, ...]
    text: str  # its attributes
    root: bool

    def called_computations(self) -> list[str]:
        """Names of the computations that it calls."""
        branches = _BRANCHES.search(self.text)
        named = [name.strip().lstrip("%") for name in branches[1].split(",")] if branches else []
        return _CALLED.findall(self.text) + named


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a program.

    Attributes:
      kind: `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all` or `collective-permute`.
      devices: number of devices in a group.
      sent: bytes that one device sends each time, by a ring algorithm.
      times: executions in one step.
      where: `op_name` of the source operation.
    """

    kind: str
    devices: int
    sent: int
    times: int
    where: str


class Program:
    """A compiled program of one device."""

    def __init__(self, text: str):
        self.computations: dict[str, dict[str, Instruction]] = {}
        entry = ""
        current: dict[str, Instruction] = {}
        for line in text.splitlines():
            if header := _HEADER.match(line):
                current = self.computations.setdefault(header[2], {})
                entry = header[2] if header[1] else entry
            elif line_match := _INSTRUCTION.match(line):
                instruction = _instruction(line_match[2], line_match[3], bool(line_match[1]))
                current[instruction.name] = instruction
        self.runs: dict[str, int] = {}  # executions of each computation in one step
        self.home: dict[str, str] = {}  # the computation that contains a fused one
        self._visit(entry, entry, 1)

    def _visit(self, name: str, home: str, times: int) -> None:
        self.runs[name] = self.runs.get(name, 0) + times
        self.home[name] = home
        for instruction in self.computations[name].values():
            rounds = self._rounds(instruction) if instruction.opcode == "while" else 1
            for called in instruction.called_computations():
                if called in self.computations:
                    self._visit(called, called if instruction.opcode == "while" else home, times * rounds)

    def _rounds(self, loop: Instruction) -> int:
        """The trip count of a loop whose condition compares a counter, from 0, with a constant; else 1."""
        names = dict(re.findall(rf"(condition|body)={_NAME}", loop.text))
        condition = self.computations[names["condition"]]
        body = self.computations[names["body"]]
        end = [value for i in condition.values() if (value := _constant(i)) is not None]
        counter = [i for i in condition.values() if i.opcode == "get-tuple-element"]
        if len(end) != 1 or len(counter) != 1:
            return 1
        index = int(re.search(r"index=(\d+)", counter[0].text)[1])  # type: ignore[index]
        result = next(i for i in body.values() if i.root)
        step = body.get(result.operands[index])
        steps = [_constant(body[name]) for name in step.operands if name in body] if step else []
        return -(-end[0] // next((value for value in steps if value), 1))

    def _all(self) -> Iterator[tuple[str, Instruction]]:
        for name, times in self.runs.items():
            if times:
                yield from ((name, instruction) for instruction in self.computations[name].values())

    def collectives(self) -> list[Collective]:
        """All collectives of one step.

        A collective split into a chain, to overlap with compute, counts once. Copies of one before and in a loop share
        a channel, and both count.
        """
        by_key: dict[tuple[str, ...], Collective] = {}
        for computation, instruction in self._all():
            kind = instruction.opcode.removesuffix("-start")
            if kind not in _COLLECTIVES:
                continue
            devices, sent = self._sent_bytes(kind, computation, instruction)
            if devices == 1:
                continue
            if kind == "all-reduce" and computation.startswith("all-reduce-scatter"):
                kind = "reduce-scatter"
                sent = sent // 2
            channel, chain = (re.search(rf'{word}="?(\d+)', instruction.text) for word in ("channel_id", "chain_id"))
            key = (channel[1], "chain", chain[1]) if channel and chain else (instruction.name, self.home[computation])
            where = re.search(r'op_name="([^"]*)"', instruction.text)
            times = self.runs[computation]
            if key in by_key:  # parts of a chain outside a loop run once, those in it in every iteration
                times = min(times, by_key[key].times)
            by_key[key] = Collective(kind, devices, sent, times, where[1] if where else "")
        return list(by_key.values())

    def _sent_bytes(self, kind: str, computation: str, instruction: Instruction) -> tuple[int, int]:
        """The group size of a collective, and the bytes that each device sends."""
        devices = _group(instruction.text)
        if kind == "collective-permute":
            return 2, instruction.arrays[0].bytes
        size = sum(array.bytes for array in instruction.arrays)
        if instruction.opcode.endswith("-start"):  # its outputs include its operands
            inside = self.computations[computation]
            size -= sum(a.bytes for name in instruction.operands if name in inside for a in inside[name].arrays)
        ways = {"all-reduce": 2 * (devices - 1) / devices, "reduce-scatter": devices - 1.0}
        return devices, round(size * ways.get(kind, (devices - 1) / devices))

    def kernels(self) -> int:
        """Executions of custom (Pallas) kernels in one step."""
        mark = 'custom_call_target="tpu_custom_call"'
        return sum(self.runs[computation] for computation, instruction in self._all() if mark in instruction.text)

    def memory_traffic(self) -> int:
        """Bytes that one step reads from and writes to a device's memory, summed over operations.

        Of an array that is only sliced, or updated in a slice, the slice counts. Arrays in on-chip memory do not count.
        """
        fused = {name for _, i in self._all() if i.opcode == "fusion" for name in i.called_computations()}
        total = 0
        for name, instruction in self._all():
            if name not in fused and instruction.opcode not in _FREE:
                total += self.runs[name] * self._traffic(name, instruction)
        return total

    def _traffic(self, computation: str, instruction: Instruction) -> int:
        inside = self.computations[computation]
        if instruction.opcode in ("copy-start", "slice-start"):  # between the memories
            return instruction.arrays[-1 if len(instruction.arrays) < 3 else 1].bytes
        if instruction.opcode.startswith(("custom-call", "all-", "reduce-scatter", "collective", "async")):
            whole = [a for name in instruction.operands if name in inside for a in inside[name].arrays]
            return sum(a.bytes for a in (*whole, *instruction.arrays) if not a.near)
        body = (
            self.computations.get(next(iter(instruction.called_computations()), ""), {})
            if instruction.opcode == "fusion"
            else {}
        )
        parameters = {int(i.text.split(")")[0]): i for i in body.values() if i.opcode == "parameter"}
        read = 0
        for position, operand in enumerate(instruction.operands):
            if operand in inside:
                taken = self._sliced_bytes(body, parameters.get(position), instruction)
                arrays = inside[operand].arrays
                read += sum(a.bytes if taken is None else min(a.bytes, taken) for a in arrays if not a.near)
        return read + self._written_bytes(body, instruction, inside)

    def _sliced_bytes(
        self, body: dict[str, Instruction], parameter: Instruction | None, outer: Instruction
    ) -> int | None:
        """Bytes read of an operand of which only slices are read. If None, all of it is read."""
        if outer.opcode in ("dynamic-slice", "gather", "slice"):
            return sum(a.bytes for a in outer.arrays)
        if parameter is None:
            return None
        users = [i for i in body.values() if parameter.name in i.operands]
        if users and all(i.opcode in ("dynamic-slice", "gather", "slice") for i in users):
            return sum(a.bytes for i in users for a in i.arrays)
        if users and all(i.opcode == "dynamic-update-slice" and i.operands[0] == parameter.name for i in users):
            return 0  # written in place
        return None

    def _written_bytes(self, body: dict[str, Instruction], outer: Instruction, inside: dict[str, Instruction]) -> int:
        if outer.opcode == "dynamic-update-slice":
            return sum(a.bytes for a in inside[outer.operands[1]].arrays) if outer.operands[1] in inside else 0
        updates = [i for i in body.values() if i.opcode == "dynamic-update-slice"]
        total = 0
        for array in outer.arrays:
            update = next((i for i in updates if i.arrays[0].shape == array.shape), None)
            slice_ = body.get(update.operands[1]) if update else None
            total += 0 if array.near else slice_.arrays[0].bytes if slice_ else array.bytes
        return total


def _instruction(name: str, rest: str, root: bool) -> Instruction:
    """Parses `TYPE opcode(operands), attributes`."""
    end = _closing(rest) if rest.startswith("(") else rest.index(" ")
    kind = rest[:end]
    rest = rest[end:].lstrip()
    opcode, _, rest = rest.partition("(")
    end = _closing("(" + rest) - 1
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[: end - 1]))
    arrays = tuple(
        Array(dtype, tuple(map(int, filter(None, dims.split(",")))), "S(1)" in layout or "S(6)" in layout)
        for dtype, dims, layout in _ARRAY.findall(kind)
    )
    text = rest if opcode in ("constant", "parameter") else rest[end:]
    return Instruction(name, opcode.strip(), arrays, operands, text, root)


def _constant(instruction: Instruction) -> int | None:
    """The value of an integer constant. None for other instructions."""
    value = re.match(r"(\d+)\)", instruction.text) if instruction.opcode == "constant" else None
    return int(value[1]) if value else None


def _closing(text: str) -> int:
    """The index after the bracket that closes the first one."""
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return index + 1
    raise ValueError(f"unclosed bracket in {text[:80]!r}")


def _group(text: str) -> int:
    """The group size from `replica_groups`, in any of its three notations."""
    order = r"(?:, device_ids=\([^()]*(?:\([^)]*\))?\))?"
    if mesh := re.search(rf"replica_groups=mesh\[([^\]]*)\]{order} ?\{{([^}}]*)\}}", text):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'([^']+)'", mesh[2]) if axis in sizes)
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]", text):
        return int(iota[2])
    if listed := re.search(r"replica_groups=\{\{([\d,]*)\}", text):
        return len(listed[1].split(","))
    return 1
