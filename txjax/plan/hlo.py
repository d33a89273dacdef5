"""Parses a compiled program's HLO text: its instructions, and how often each computation runs in a step."""

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
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


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

    @property
    def target(self) -> str:
        """The function of a custom call; "" for other instructions."""
        target = _TARGET.search(self.text) if self.opcode == "custom-call" else None
        return target[1] if target else ""


class Program:
    """A compiled program of one device."""

    def __init__(self, text: str):
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        current: dict[str, Instruction] = {}
        for line in text.splitlines():
            if header := _HEADER.match(line):
                current = self.computations.setdefault(header[2], {})
                self.entry = header[2] if header[1] else self.entry
            elif line_match := _INSTRUCTION.match(line):
                instruction = _instruction(line_match[2], line_match[3], bool(line_match[1]))
                current[instruction.name] = instruction
        self.runs: dict[str, int] = {}  # executions of each computation in one step
        self.home: dict[str, str] = {}  # the computation that contains a fused one
        self._visit(self.entry, self.entry, 1)

    def _visit(self, name: str, home: str, times: int) -> None:
        self.runs[name] = self.runs.get(name, 0) + times
        self.home[name] = home
        for instruction in self.computations[name].values():
            rounds = self.rounds(instruction) if instruction.opcode == "while" else 1
            for called in instruction.called_computations():
                if called in self.computations:
                    self._visit(called, called if instruction.opcode == "while" else home, times * rounds)

    def rounds(self, loop: Instruction) -> int:
        """The trip count of a loop, if XLA states it or its condition compares a counter, from 0, with a constant.

        Else 1.
        """
        if stated := _TRIPS.search(loop.text):
            return int(stated[1])
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

    def instructions(self) -> Iterator[tuple[str, Instruction]]:
        """All instructions that run, each with the name of its computation."""
        for name, times in self.runs.items():
            if times:
                yield from ((name, instruction) for instruction in self.computations[name].values())


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
