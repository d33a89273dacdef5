"""Parameter groups: each parameter is in exactly one, else an error names those that are not."""

import pytest

from txjax.optim import AdamW, Group, assign, default_groups
from txjax.types import UserError

PATHS = ["embed/embedding", "layers/block/mlp/up/kernel", "layers/block/mlp/up/bias", "norm/scale", "token"]


def test_default_groups_decay_matrices_only() -> None:
    decays = {path: group.weight_decay for path, group in assign(default_groups(), PATHS).items()}
    assert decays == dict(zip(PATHS, [1.0, 1.0, 0.0, 0.0, 0.0], strict=True))


def test_default_groups_may_match_nothing() -> None:
    assert list(assign(default_groups(), ["kernel"])) == ["kernel"]


def test_frozen_parameters() -> None:
    optimizer = AdamW(groups=(Group("layers/.*", trainable=False), Group("(?!layers/).*")))
    assert [optimizer.frozen(path) for path in PATHS] == [False, True, True, False, False]
    assert [group.trainable for group in optimizer.assign(PATHS).values()] == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([Group(".*kernel")], r"no pattern matches embed/embedding, layers/block/mlp/up/bias, norm/scale and 1 more"),
        ([Group(".*"), Group("token")], r"'\.\*' and 'token' all match token"),
        ([Group(".*"), Group("tokens")], r"got 'tokens'; did you mean token\?"),
        ([Group("kernel)")], r"expected a regular expression, got 'kernel\)'; it is invalid: unbalanced parenthesis"),
        ([], "no pattern matches"),
    ],
)
def test_groups_that_do_not_cover(groups: list[Group], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        assign(groups, PATHS)
    assert caught.value.field == "config.optimizer.groups"
