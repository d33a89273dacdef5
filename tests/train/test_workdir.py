"""The config that a workdir was started with, and releases that have more fields than it."""

import json

import pytest

from txjax import config
from txjax.io import digest
from txjax.train.workdir import write_config
from txjax.types import UserError


def load():
    return config.load("configs/text/gpt_tiny.py", [])


@pytest.fixture
def older(tmp_path):
    """A workdir as a release left it that knew no averages of weights and no b2 of Adam."""
    write_config(tmp_path, load())
    path = tmp_path / "config.json"
    known = json.loads(path.read_text())
    del known["ema"], known["optimizer"]["b2"], known["optimizer"]["schedule"]
    path.write_text(json.dumps(known))
    (tmp_path / "checkpoints" / "1").mkdir(parents=True)
    digest.commit(tmp_path / "checkpoints" / "1")
    return tmp_path


def test_fields_newer_than_the_workdir_are_no_change_at_their_defaults(older):
    now = load()
    now.optimizer.b2, now.optimizer.schedule = type(now.optimizer)().b2, type(now.optimizer)().schedule
    write_config(older, now)
    assert json.loads((older / "config.json").read_text())["optimizer"]["b2"] == now.optimizer.b2


def test_fields_newer_than_the_workdir_are_a_change_at_other_values(older):
    now = load()
    now.optimizer.schedule, now.optimizer.b2 = type(now.optimizer)().schedule, 0.123
    with pytest.raises(UserError, match=r"optimizer\.b2: 0\.95 -> 0\.123"):
        write_config(older, now)
    assert "0.123" not in (older / "config.json").read_text()
