"""Values of a wrong kind in an experiment that Python has written: nothing but Python itself has looked at them."""

import dataclasses

import pytest

import txjax
from txjax import tree
from txjax.errors import UserError

pytestmark = pytest.mark.claim("Tests", "a value of any kind in any field of an experiment is one line, no traceback")
VALUES = ("x", 1.5, (), {}, b"x", [1], None, -1)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """It can't run, since the file of its data is missing."""
    missing = tmp_path_factory.mktemp("data") / "missing.csv"
    loaded = txjax.load_config("txjax:text/classifier")
    return dataclasses.replace(loaded, data=dataclasses.replace(loaded.data, name=None, source=str(missing)))


@pytest.mark.parametrize("part", ["", "data", "model", "objective", "optimizer", "checkpoint", "mesh", "evals.test"])
def test_any_value_in_any_field(experiment, tmp_path, part):
    node = dict(tree.walk(experiment, "config"))[f"config.{part}".rstrip(".")]
    for field in tree.config_fields(node):
        before = getattr(node, field.name)
        for value in VALUES:
            object.__setattr__(node, field.name, value)
            with pytest.raises(UserError) as raised:
                txjax.fit(experiment, tmp_path / "run")
            assert "\n" not in str(raised.value.errors[0] if hasattr(raised.value, "errors") else raised.value)
        object.__setattr__(node, field.name, before)


def test_a_text_for_a_tuple_of_texts(experiment, tmp_path):
    text = dataclasses.replace(experiment, data=dataclasses.replace(experiment.data, text="review"))
    with pytest.raises(UserError, match=r"config.data.text: expected a tuple of texts.*written \('review',\)"):
        txjax.fit(text, tmp_path / "run")
