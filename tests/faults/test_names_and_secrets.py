"""Names cannot leave the workdir; secrets are in nothing that a run writes."""

import dataclasses
import json
import sys

import pytest

from txjax import config as configs
from txjax import tree
from txjax.__main__ import main
from txjax.train.run.workdir import write_config

from helpers import runs

SECRET = "s3cret-value"
BAD = ["../x", "/tmp/x", "a/b", "..", ".hidden", "a\0b", "a b", "x" * 300, "", "a\nb", "C:\\x"]


@pytest.mark.parametrize("name", BAD, ids=[repr(name)[:12] for name in BAD])
def test_invalid_evaluation_names(name, tmp_path, capsys):
    path = tmp_path / "named.py"
    text = runs.CONFIG.replace('evals={"valid"', f"evals={{{name!r}").replace(', best="eval/valid/loss"', "")
    path.write_text(text)
    before = set(tmp_path.rglob("*"))
    assert main(["train", f"--config={path}", f"--workdir={tmp_path / 'run'}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("txjax: config.evals: expected names of letters") and len(err.splitlines()) == 1, err
    assert {p for p in tmp_path.rglob("*") if "__pycache__" not in str(p)} == before


@pytest.mark.parametrize("name", ["../../etc", "/etc", "a\0b"], ids=["up", "absolute", "nul"])
def test_invalid_data_set_names(name, tmp_path, capsys):
    path = tmp_path / "named.py"
    path.write_text(runs.CONFIG.replace('name="txjax_python_text"', f"name={name!r}"))
    assert main(["train", f"--config={path}", f"--workdir={tmp_path / 'run'}"]) == 2
    err = capsys.readouterr().err
    assert "config.data.name" in err and len(err.splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("workdir", ["a\0b", "x" * 5000], ids=["nul", "long"])
def test_invalid_workdirs(workdir, config, capsys):
    assert main(["train", f"--config={config}", f"--workdir={workdir}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("txjax: --workdir: expected") and len(err.splitlines()) == 1, err


@dataclasses.dataclass
class Account:
    api_key: str = SECRET
    wandb_token: str = SECRET
    client_secret: str = SECRET
    password: str = SECRET
    headers: dict = dataclasses.field(default_factory=lambda: {"hub_token": SECRET, "tokens": 5})
    tokens: int = 3
    tokenizer: str = "bytes"
    tokens_per_s: float = 2.0


def test_secrets_at_any_depth_are_hidden():
    written = tree.to_json({"account": Account()})
    assert SECRET not in json.dumps(written)
    account = written["account"]
    assert (account["tokens"], account["tokenizer"], account["tokens_per_s"]) == (3, "bytes", 2.0)
    assert account["headers"]["tokens"] == 5
    assert tree.diff(written, tree.to_json({"account": Account(password="another")})) == []


def test_secrets_of_a_command_line():
    words = ["txjax", "train", f"--config.trackers[0].api_key={SECRET}", "--config.x.password", SECRET, "--tokens=3"]
    words += ["--config.data.tokenizer=bytes", f"--hub-token={SECRET}"]
    hidden = tree.hide_secrets(words)
    assert SECRET not in " ".join(hidden) and {"--tokens=3", "--config.data.tokenizer=bytes"} <= set(hidden)
    assert hidden[2] == "--config.trackers[0].api_key=(hidden)" and len(hidden) == len(words)
    (hidden,) = tree.hide_secrets([f"""--config.x=Hub(api_key='{SECRET}', at={{"hub_token": "{SECRET}"}}, mode="a")"""])
    assert hidden == """--config.x=Hub(api_key='(hidden)', at={"hub_token": "(hidden)"}, mode="a")"""


TRACKER = f'''
import dataclasses
from txjax.log import Sink, Tracker

@dataclasses.dataclass
class Hub(Tracker, Sink):
    api_key: str = ""
    def open(self, workdir, start_step):
        return self
    def write(self, row, files):
        assert self.api_key == "{SECRET}"  # the tracker itself has it
'''


def test_secrets_are_in_nothing_that_a_run_writes(tmp_path, monkeypatch, capsys):
    path, workdir = tmp_path / "small.py", tmp_path / "run"
    path.write_text(runs.CONFIG.replace("trackers=()", "trackers=(Hub(),)") + TRACKER)
    flag = f"--config.trackers[0].api_key={SECRET}"
    monkeypatch.setattr(sys, "argv", ["txjax", "train", flag])  # recorded in the manifest
    code, out, err = runs.train_here(path, workdir, flag, "--until=2")
    assert code == 0 and "switched off" not in err, err
    assert main(["report", str(workdir)]) == 0
    write_config(workdir, configs.load(str(path), [flag]))  # a resume is possible: what is hidden is unchanged
    printed = capsys.readouterr()
    for file in (p for p in workdir.rglob("*") if p.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in printed.out + printed.err + out + err
    assert "api_key" in (workdir / "config.json").read_text() and "(hidden)" in (workdir / "manifest.json").read_text()
