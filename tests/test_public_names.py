"""The names that users may rely on, with their fields and arguments."""

import pytest

from txjax.models.text.bert import Bert
from txjax.optim import Cosine, train_only

import public_names

pytestmark = pytest.mark.claim("Documentation", "public names and their fields change only with the snapshot")


def test_public_names_are_those_of_the_snapshot():
    new = "docs/public_names.txt is out of date; if the change is meant: python docs/extensions/public_names.py"
    assert public_names.SNAPSHOT.read_text() == public_names.snapshot(), new


def test_there_are_at_most_250_public_names():
    names = [name for page in public_names.public_names().values() for name in page]
    assert len(names) <= 250
    assert all((name.value.__doc__ or "").strip() for name in names)


def test_arguments_as_a_user_writes_them():
    cosine = [str(field) for field in public_names.class_fields(Cosine)]
    assert cosine == ["warmup_steps: int = 100", "progress: str = 'steps'", "final: float = 0.1"]
    arguments, returns = public_names.function_arguments(train_only)
    assert [str(argument) for argument in arguments] == ["*patterns: str"] and returns == "tuple[Group, ...]"
    inherited = [field.name for field in public_names.class_fields(Bert)]
    assert "width" in inherited and "head" in inherited and "parent" not in inherited
