"""Parameter groups: path patterns, each parameter in exactly one, with factors on learning rate and weight decay."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from txjax.errors import UserError, join_names, near_misses
from txjax.patterns import matches_path
from txjax.types import config_field

FIELD = "config.optimizer.groups"
ADAPTER = "{adapter}"  # in a pattern: the parameters that the model's adapter trains


class Trains(Protocol):
    """What an adapter is for groups (see `nn.adapters.Adapter`)."""

    @property
    def trained(self) -> str:
        """A regular expression that matches the whole paths of the parameters that it trains."""


@dataclasses.dataclass
class Group:
    """The parameters whose whole path matches `pattern`.

    Attributes:
      pattern: a regular expression that must match all of a path such as `layers/block/attention/query/kernel`.
      lr: factor on the learning rate.
      weight_decay: factor on the weight decay (which is multiplied by the group's learning rate as well).
      trainable: False freezes the group: it has neither gradients nor moments.
    """

    pattern: str = ".*"
    lr: float = config_field(1.0, at_least=0, traced=True)
    weight_decay: float = config_field(1.0, at_least=0, traced=True)
    trainable: bool = True

    def matches(self, path: str) -> bool:
        """Whether the parameter is in this group. Raises UserError for an invalid pattern, or one of no adapter."""
        if ADAPTER in self.pattern:
            raise UserError("config.model.adapter", f"an adapter, since {FIELD} trains its parameters", None)
        return matches_path(self.pattern, path, FIELD)


def default_groups() -> tuple[Group, ...]:
    """The default groups: kernels and embeddings decay; biases, scales of norms, class tokens and the like do not."""
    return Group(r".*(kernel|embedding)"), Group(r"(?!.*(kernel|embedding)$).*", weight_decay=0.0)


def train_only(*patterns: str) -> tuple[Group, ...]:
    """Groups that freeze all parameters but those whose whole path matches one of these patterns.

    `train_only("head/.*")` trains a head. Weight decay applies to all that is trained.
    """
    wanted = "|".join(f"({pattern})" for pattern in patterns)
    return Group(wanted), Group(rf"(?!({wanted})$).*", trainable=False)


def train_adapter(*patterns: str) -> tuple[Group, ...]:
    """`train_only` the parameters of the model's adapter, whichever it is, and those that match one of these patterns.

    `train_adapter("head/.*")` trains them and a head.
    """
    return train_only(ADAPTER, *patterns)


def of_adapter(groups: Sequence[Group], adapter: Trains | None) -> tuple[Group, ...]:
    """The groups with what this adapter trains in the place of `ADAPTER`. If it is None, they are as they were."""
    if adapter is None:
        return tuple(groups)
    return tuple(
        dataclasses.replace(group, pattern=group.pattern.replace(ADAPTER, adapter.trained)) for group in groups
    )


def train_all_but(*patterns: str) -> tuple[Group, ...]:
    """`default_groups`, but the parameters whose whole path matches one of these patterns are frozen.

    `train_all_but("teacher/.*")` trains a student and not its teacher (`objectives.Distillation`).
    """
    frozen = "|".join(f"({pattern})" for pattern in patterns)
    trained = [dataclasses.replace(group, pattern=rf"(?!({frozen})$){group.pattern}") for group in default_groups()]
    return *trained, Group(frozen, trainable=False)


def find(groups: Sequence[Group], path: str) -> Group:
    """The group of this parameter. Raises UserError if none or several groups match it."""
    return _cover(groups, [path])[path]


def assign(groups: Sequence[Group], paths: Iterable[str]) -> dict[str, Group]:
    """The group of every parameter.

    Raises:
      UserError: parameters without a group or with several, an invalid pattern, or a pattern without a parameter
        (the patterns of `default_groups` may match nothing).
    """
    assigned = _cover(groups, paths)
    matched = {group.pattern for group in (*assigned.values(), *default_groups())}
    for group in groups:
        if group.pattern not in matched:
            words = re.sub(r"[^\w/]+", "", group.pattern)
            raise UserError(FIELD, "a pattern that matches a parameter", group.pattern, near_misses(words, assigned))
    return assigned


def _cover(groups: Sequence[Group], paths: Iterable[str]) -> dict[str, Group]:
    matches = {path: [group for group in groups if group.matches(path)] for path in paths}
    bare = [path for path, matching in matches.items() if not matching]
    if bare:
        raise UserError(FIELD, "a group for every parameter", hint=f"no pattern matches {join_names(bare, 3)}")
    double = [path for path, matching in matches.items() if len(matching) > 1]
    if double:
        patterns = " and ".join(repr(group.pattern) for group in matches[double[0]])
        raise UserError(
            FIELD, "one group a parameter", hint=f"{patterns} all match {join_names(double, 3)}: narrow them"
        )
    return {path: matching[0] for path, matching in matches.items()}
