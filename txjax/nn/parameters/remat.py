"""Rematerialisation: results saved for the backward pass, by name; the rest is recomputed (Chen et al. 2016)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.ad_checkpoint

from txjax import backend

Policy = Callable[..., Any]

_ATTENTION = ("query", "key", "value", "attended")  # inputs of attention, and the input of its output projection
_LINEAR = ("query", "key", "value", "attention", "hidden", "mlp")  # products with parameters
_STREAM = "stream"  # a block's input
LOG_Z = "log_z"  # of logits whose other numbers are recomputed
# What cuDNN's attention gives. Its backward pass needs sums that have no name, so policies save all that its primitive
# gives, and this name is for the host alone.
CUDNN_ATTENDED = "cudnn_attended"
_CUDNN = "dot_product_attention_fwd"  # the beginning of the primitive's name
NAMES = (_STREAM, "attended", CUDNN_ATTENDED, *_LINEAR)


def checkpoint_name(x: jax.Array, name: str) -> jax.Array:
    """x under a name that policies refer to. It has no cost: it is not part of the compiled program."""
    assert name in (*NAMES, LOG_Z), name
    return jax.ad_checkpoint.checkpoint_name(x, name)


@dataclasses.dataclass(frozen=True)
class Remat:
    """One rematerialisation policy of a block.

    Attributes:
      keeps: what is saved, as text.
      policy: the same for `jax.checkpoint`. If None, everything is saved and nothing is recomputed.
      host: whether some of it is offloaded to host memory.
    """

    keeps: str
    policy: Policy | None
    host: bool = False


def recomputed(function: Callable[..., Any], turns: int, *names: str) -> Callable[..., Any]:
    """A function whose backward pass, in one of so many turns of a loop, recomputes all but what has these names."""
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint(function, prevent_cse=needs_barriers(turns), policy=policy)


def needs_barriers(turns: int, layers: int = 1) -> bool:
    """Whether layers need `prevent_cse` of `jax.checkpoint`, barriers around what is recomputed.

    A loop of one layer a turn needs none: the forward and the backward pass are two loops, and the second recomputes
    one layer at a time. Where layers are not a loop, XLA replaces a recomputed result by the first one, which it saves;
    where several layers are one turn, it recomputes all of them before the first gradient.

    Args:
      turns: of the loop. XLA removes a loop of a single turn.
      layers: rematerialised one by one in each turn.
    """
    return turns == 1 or layers > 1


def _only(*names: str) -> Policy:
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    if "attended" not in names:
        return policy

    def with_cudnn(primitive: Any, *avals: Any, **params: Any) -> Any:
        return primitive.name.startswith(_CUDNN) or policy(primitive, *avals, **params)

    return with_cudnn


def _on_host(*names: str) -> Policy:
    return jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=list(names),
        offload_src="device",
        offload_dst="pinned_host",
    )


# From most to least memory on the device.
REMAT: dict[str, Remat] = {
    "none": Remat("everything", None),
    "minimal": Remat("all products: queries, keys, values, what attention gives, MLP's", _only("attended", *_LINEAR)),
    "dots": Remat("products with parameters", _only(*_LINEAR)),
    "attention": Remat("queries, keys, values and what attention gives", _only(*_ATTENTION)),
    "full": Remat("each block's input", jax.checkpoint_policies.nothing_saveable),
    "offload": Remat("each block's input and all products, in the host's memory", _on_host(*NAMES), host=True),
    "offload_full": Remat("each block's input, in the host's memory", _on_host(_STREAM), host=True),
}


def remat_policy(name: str) -> Policy | None:
    """The `jax.checkpoint` policy of this name. If None, all results are saved.

    Raises:
      UserError: it needs host memory, which the backend doesn't have.
    """
    remat = REMAT[name]
    if remat.host:
        backend.need_host_memory("config.model.stack.remat")
    return remat.policy
