"""Parameter groups: each parameter is in exactly one, else an error names those that are not."""

import pytest

from txjax.nn.adapters import BitFit, DoRA, Prompt
from txjax.optim import AdamW, Group, assign, default_groups, train_adapter
from txjax.overrides import override
from txjax.types import UserError

from helpers import tiny_experiments

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


def test_groups_of_the_adapter_that_a_flag_gives() -> None:
    """No second flag is needed: the groups are resolved when they are used. A model without one is refused."""
    experiment = tiny_experiments.decoder(optimizer=AdamW(groups=train_adapter("head/.*")))
    for flag, kind, path in [
        ("DoRA(rank=4)", DoRA, "layers/block/mlp/up/dora/magnitude"),
        ("Prompt(length=2)", Prompt, "prompt/tokens"),
        ("BitFit(paths='norm_.*')", BitFit, "norm_final/bias"),
    ]:
        experiment = override(experiment, f"--config.model.adapter={flag}", {kind.__name__: kind})
        found = experiment.optimizer.tuning(experiment.model)
        assert found.trained(path) and found.trained("head/kernel") and found.frozen("layers/block/mlp/up/bias")
    experiment.model.adapter = None
    with pytest.raises(
        UserError, match=r"config\.model\.adapter: expected an adapter.*trains its parameters, got None"
    ):
        experiment.optimizer.tuning(experiment.model).assign(PATHS)


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
