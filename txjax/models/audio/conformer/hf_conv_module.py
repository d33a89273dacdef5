"""The rules of the convolution module, which files of Conformers share."""

from __future__ import annotations

from txjax.interop.huggingface.rules import SAME, Rule, batch_norm, kernel, linear


def conv_module(theirs: str, ours: str, batch_norm_name: str, bias: bool) -> list[Rule]:
    """The rules of a `ConvModule`, whose `up` and `gate` are one tensor there."""
    halves = [f"{ours}/{name}" for name in ("up", "gate")]
    gated = [Rule(f"{theirs}.pointwise_conv1.weight", tuple(f"{half}/kernel" for half in halves), SAME, kernel(1))]
    if bias:
        gated.append(Rule(f"{theirs}.pointwise_conv1.bias", tuple(f"{half}/bias" for half in halves)))
    return [
        *gated,
        *linear(f"{theirs}.depthwise_conv", f"{ours}/depthwise", kernel(), bias),
        *batch_norm(f"{theirs}.{batch_norm_name}", f"{ours}/norm_depthwise"),
        *linear(f"{theirs}.pointwise_conv2", f"{ours}/down", kernel(1), bias),
    ]
