"""The work of a compiled program's kernels: floating point operations and bytes."""

import dataclasses
import math
import re
from collections.abc import Iterator

from txjax.plan.hlo import Array, Instruction, Program
from txjax.plan.traffic import traffic_of

_ATTENTION = "__cudnn$fmha"
_CUSTOM = ("tpu_custom_call", _ATTENTION, "__gpu$xla.gpu.triton")  # written by hand, not by the compiler
_FORWARD = 4  # FLOPs of attention for each query, key and channel of a head: two products
_BACKWARD = 10  # five products, with the scores that are computed again (Dao et al. 2022, section 3.1)


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one execution of a kernel.

    Attributes:
      flops: of its products of matrices.
      bytes: read from and written to the device's memory.
      dtype: of the products' inputs; "" without products.
      attention: what the kernel computes of attention, None for other kernels.
    """

    flops: int
    bytes: int
    dtype: str = ""
    attention: "AttentionWork | None" = None


@dataclasses.dataclass(frozen=True)
class AttentionWork:
    """A call of a fused attention kernel: `length` is that of the keys, `head` the size of a head."""

    backward: bool
    causal: bool
    length: int
    head: int


def custom_kernels(program: Program) -> int:
    """Executions of kernels in one step that were written by hand: Pallas, Triton, cuDNN's attention."""
    return sum(
        program.runs[name] for name, instruction in program.instructions() if instruction.target.startswith(_CUSTOM)
    )


def work_of(program: Program, computation: str, instruction: Instruction) -> Work:
    """The work of one execution of an instruction that is a kernel."""
    inside = program.computations[computation]
    moved = traffic_of(program, computation, instruction)
    if instruction.target.startswith(_ATTENTION):
        return _attention_work(inside, instruction, moved)
    products = list(_products(program, inside, instruction))
    return Work(sum(flops for flops, _ in products), moved, products[0][1] if products else "")


def _products(program: Program, inside: dict[str, Instruction], instruction: Instruction) -> Iterator[tuple[int, str]]:
    """FLOPs and dtype of each product that an instruction computes, itself or in a fusion."""
    if instruction.opcode in ("dot", "convolution") or "gemm" in instruction.target or "matmul" in instruction.target:
        left, right = (_array(inside, name) for name in instruction.operands[:2])
        out = instruction.arrays[0]
        if instruction.opcode == "convolution":
            yield _convolution_flops(instruction.text, out, right), left.dtype
        else:
            contracted = re.search(r'lhs_contracting_dim(?:ension)?s"?[:=][\[{]([\d,"]*)', instruction.text)
            axes = [int(axis) for axis in re.findall(r"\d+", contracted[1])] if contracted else [-1]
            yield 2 * math.prod(out.shape) * math.prod(left.shape[axis] for axis in axes), left.dtype
    elif "$conv" in instruction.target:
        yield _cudnn_convolution(inside, instruction)
    for name in instruction.called_computations() if instruction.opcode.startswith("fusion") else ():
        body = program.computations.get(name, {})
        for part in body.values():
            yield from _products(program, body, part)


def _cudnn_convolution(inside: dict[str, Instruction], call: Instruction) -> tuple[int, str]:
    """A convolution's FLOPs and dtype; its gradients' are the same products in another order."""
    first, second = (_array(inside, name) for name in call.operands[:2])
    if "BackwardInput" in call.target:
        return _convolution_flops(call.text, first, second), first.dtype
    if "BackwardFilter" in call.target:
        return _convolution_flops(call.text, second, call.arrays[0]), first.dtype
    return _convolution_flops(call.text, call.arrays[0], second), first.dtype


def _convolution_flops(text: str, outputs: Array, kernel: Array) -> int:
    """Two for each output and each number of the kernel that is multiplied for it."""
    labels = re.search(r"dim_labels=\w+_(\w+)->", text)
    channels = kernel.shape[labels[1].index("o")] if labels else 1
    return 2 * math.prod(outputs.shape) * math.prod(kernel.shape) // channels


def _attention_work(inside: dict[str, Instruction], call: Instruction, moved: int) -> Work:
    query, key = (_array(inside, name) for name in call.operands[:2])
    batch, length, heads, head = query.shape
    source = key.shape[1]
    backward = "Backward" in call.target
    causal = "CAUSAL" in call.text
    pairs = length * source / (2 if causal else 1)
    window = re.search(r'"sliding_window_length":\s*"?(\d+)', call.text)
    if window and int(window[1]):
        pairs = min(pairs, length * int(window[1]))
    flops = (_BACKWARD if backward else _FORWARD) * batch * heads * head * pairs
    return Work(round(flops), moved, query.dtype, AttentionWork(backward, causal, source, head))


def _array(inside: dict[str, Instruction], name: str) -> Array:
    return inside[name].arrays[0]
