"""Memory traffic of a compiled program: bytes that its operations read from and write to a device's memory."""

from collections.abc import Iterator

from txjax.plan.hlo import Instruction, Program

# Opcodes that move no memory, or whose bodies are counted separately.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "iota", "partition-id", "replica-id", "opt-barrier",
}  # fmt: skip
_SLICES = ("dynamic-slice", "gather", "slice")
_RESHAPES = {"bitcast", "reshape", "convert", "copy", "transpose"}  # inside a fusion, of which only a slice is computed


def memory_traffic(program: Program) -> int:
    """Bytes that one step reads from and writes to a device's memory, summed over operations.

    Of an array that is only sliced, or updated in a slice, the slice counts. Arrays in on-chip memory do not count.
    """
    fused = {
        name for _, i in program.instructions() if i.opcode.startswith("fusion") for name in i.called_computations()
    }
    return sum(
        program.runs[name] * traffic_of(program, name, instruction)
        for name, instruction in program.instructions()
        if name not in fused and not is_free(instruction)
    )


def is_free(instruction: Instruction) -> bool:
    """Whether an instruction moves no memory itself. Of one in two halves, the first half counts."""
    return instruction.opcode in FREE or instruction.opcode.endswith("-done")


def traffic_of(program: Program, computation: str, instruction: Instruction) -> int:
    """Bytes that one execution of an instruction of a computation reads and writes."""
    inside = program.computations[computation]
    if instruction.opcode in ("copy-start", "slice-start"):  # between the memories
        return instruction.arrays[-1 if len(instruction.arrays) < 3 else 1].bytes
    if instruction.opcode.startswith(("custom-call", "all-", "reduce-scatter", "collective", "async")):
        whole = [a for name in instruction.operands if name in inside for a in inside[name].arrays]
        return sum(a.bytes for a in (*whole, *instruction.arrays) if not a.near)
    body = fused_body(program, instruction)
    parameters = {int(i.text.split(")")[0]): i for i in body.values() if i.opcode == "parameter"}
    read = 0
    for position, operand in enumerate(instruction.operands):
        if operand in inside:
            taken = _sliced_bytes(body, parameters.get(position), instruction)
            whole_bytes = sum(a.bytes for a in inside[operand].arrays if not a.near)
            read += whole_bytes if taken is None else min(taken, whole_bytes)
    return read + _written_bytes(body, instruction, inside)


def fused_body(program: Program, instruction: Instruction) -> dict[str, Instruction]:
    """The instructions of a fusion by name; {} for other instructions."""
    if not instruction.opcode.startswith("fusion"):
        return {}
    return program.computations.get(next(iter(instruction.called_computations()), ""), {})


def _sliced_bytes(body: dict[str, Instruction], parameter: Instruction | None, outer: Instruction) -> int | None:
    """Bytes read of an operand of which only slices are read. If None, all of it is read."""
    if outer.opcode in _SLICES:
        return sum(a.bytes for a in outer.arrays)
    if parameter is None:
        return None
    users = list(_users(body, parameter.name))
    if users and all(i.opcode in _SLICES for i, _ in users):
        return sum(a.bytes for i, _ in users for a in i.arrays)
    if users and all(i.opcode == "dynamic-update-slice" and i.operands[0] == name for i, name in users):
        return 0  # written in place
    return None


def _users(body: dict[str, Instruction], name: str) -> Iterator[tuple[Instruction, str]]:
    """The instructions that read an array, each with the name that it reads, through those that only reshape it."""
    for user in body.values():
        if name in user.operands and user.opcode in _RESHAPES and not user.root:
            yield from _users(body, user.name)
        elif name in user.operands:
            yield user, name


def _written_bytes(body: dict[str, Instruction], outer: Instruction, inside: dict[str, Instruction]) -> int:
    if outer.opcode == "dynamic-update-slice":
        return sum(a.bytes for a in inside[outer.operands[1]].arrays) if outer.operands[1] in inside else 0
    updates = [i for i in body.values() if i.opcode == "dynamic-update-slice"]
    root = [i for i in body.values() if i.root] if outer.opcode == "fusion-start" else []  # which also lists operands
    total = 0
    for array in root[0].arrays if root else outer.arrays:
        update = next((i for i in updates if i.arrays[0].shape == array.shape), None)
        slice_ = body.get(update.operands[1]) if update else None
        total += 0 if array.near else slice_.arrays[0].bytes if slice_ else array.bytes
    return total
