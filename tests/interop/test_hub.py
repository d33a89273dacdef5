"""Uploads to a server that speaks as the Hugging Face Hub does: what arrives, what is refused, what is repeated."""

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.data import NextTokenWindows
from txjax.errors import RunError, UserError
from txjax.experiment import Experiment
from txjax.interop.huggingface import hub
from txjax.interop.huggingface.hub import Repository
from txjax.models.text.decoder import gpt
from txjax.objectives import NextToken
from txjax.train.run.workdir import lock_workdir, write_config

from helpers.arrays import variables
from helpers.hub_server import TOKEN, Hub, Repo, hub_server

pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),  # of huggingface_hub's own requests
    pytest.mark.claim(
        "Transfer",
        "an export is pushed to the Hugging Face Hub as one commit, private unless asked, and replaces nothing unasked",
    ),
]

huggingface_hub = pytest.importorskip("huggingface_hub", reason="pip install '.[hub]'")
constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with hub_server() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the server has LFS alone
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(hub, "PAUSES", (0.0, 0.0))
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "exported"
    (folder / "tokens").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    (folder / "config.json").write_text('{"model_type": "gpt2"}\n')
    (folder / "README.md").write_text("---\nlibrary_name: transformers\n---\nA card\n")
    (folder / "tokens" / "vocab.txt").write_text("a\nb\n")
    return folder


@pytest.fixture
def gpt_run(tmp_path: Path) -> Path:
    """The workdir of an untrained model."""
    model = gpt(vocab=260, width=8, depth=1, heads=2, max_length=16)
    tokens = jax.numpy.zeros((1, 16), "int32")
    with lock_workdir(tmp_path / "run") as workdir:
        write_config(workdir, Experiment(model, NextToken(), NextTokenWindows("txjax_python_text", length=16)))
        store = Store(workdir)
        params = jax.tree.map(jax.numpy.asarray, variables(model, tokens)["params"])
        store.save_parts(0, {"weights": {"params": params, "frozen": {}, "model_state": {}}}, {"metrics": {}})
        store.wait()
    return workdir


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pushed(repo: Repo) -> dict[str, bytes]:
    return {name: data for name, data in repo.files.items() if name != ".gitattributes"}


@pytest.mark.parametrize("visibility", ["private", "public"])
def test_a_folder_arrives_as_one_commit(server: Hub, folder: Path, visibility: str) -> None:
    repository = Repository("org/name", visibility)
    repository.check()
    assert server.repos == {}  # a check changes nothing
    assert repository.push(folder, "Step 7") == f"{server.url}/org/name"
    repo = server.repos["org/name"]
    assert pushed(repo) == content(folder) and ".gitattributes" in repo.files
    assert repo.commits == ["Step 7"] and repo.private == (visibility == "private")


def test_other_content_stays_unless_it_is_replaced(server: Hub, folder: Path) -> None:
    repo = server.repos["org/name"] = Repo(False, {"old.bin": b"old", "config.json": b"{}"}, ["old"])
    before = dict(repo.files)
    for act in (Repository("org/name").check, lambda: Repository("org/name").push(folder, "new")):
        with pytest.raises(
            UserError, match=r"--push: expected a new or an empty repository, got 'org/name'; .*--replace"
        ):
            act()
    assert repo.files == before and repo.commits == ["old"]
    repository = Repository("org/name", replace=True)
    repository.check()
    repository.push(folder, "new")
    assert pushed(repo) == content(folder) and repo.commits == ["old", "new"]
    assert not repo.private  # as it was


@pytest.mark.parametrize("name", ["name", "a/b/c", "org/na me", "org/..", "", "https://huggingface.co/org/name"])
def test_a_name_that_is_no_id(server: Hub, name: str) -> None:
    with pytest.raises(UserError, match="--push: expected the id of a repository, owner/name"):
        Repository(name).check()
    assert server.requests == []


def test_without_a_token(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UserError, match="--push: expected a token of the Hub; run `hf auth login`, or set HF_TOKEN"):
        Repository("org/name").check()
    assert server.requests == []


def test_a_token_that_is_refused(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(UserError, match="--push: expected a token that the Hub accepts; run `hf auth login`"):
        Repository("org/name").check()
    assert len(server.requests) == 1  # it is final


@pytest.mark.parametrize("request_", ["repos/create", "preupload", "commit"])
def test_without_the_right_to_write(server: Hub, folder: Path, request_: str) -> None:
    server.faults[request_] = [403] * 5
    with pytest.raises(
        UserError, match="--push: expected a repository that the token may write, got 'org/name'"
    ) as caught:
        Repository("org/name").push(folder, "new")
    assert "\n" not in str(caught.value)
    assert not server.repos or pushed(server.repos["org/name"]) == {}


@pytest.mark.parametrize("request_", ["GET /api/models", "repos/create", "PUT /lfs", "commit"])
def test_an_error_of_the_server_is_tried_again(server: Hub, folder: Path, request_: str) -> None:
    server.faults[request_] = [500]
    Repository("org/name").push(folder, "new")
    repo = server.repos["org/name"]
    assert pushed(repo) == content(folder) and repo.commits == ["new"]


def test_a_server_that_always_fails(server: Hub, folder: Path) -> None:
    server.faults["commit"] = [503] * 9
    with pytest.raises(RunError, match="--push=org/name: the Hub fails each time: 503") as caught:
        Repository("org/name").push(folder, "new")
    assert "\n" not in str(caught.value) and server.faults["commit"] == [503] * 6


def test_a_commit_whose_answer_is_lost_is_one_commit(server: Hub, folder: Path) -> None:
    server.lost = 1
    Repository("org/name").push(folder, "new")
    repo = server.repos["org/name"]
    assert pushed(repo) == content(folder) and repo.commits == ["new"]


def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, server: Hub) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(RunError, match="--push=org/name: the Hub fails each time: "):
        Repository("org/name").check()


def test_the_command_asks_first_and_pushes_last(
    server: Hub, gpt_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", f"--workdir={gpt_run}", f"--to={tmp_path / 'folder'}", "--push=org/name"]
    server.repos["org/name"] = Repo(True, {"old.bin": b"old"}, ["old"])
    assert main(command) == 2 and not (tmp_path / "folder").exists()
    assert "--push: expected a new or an empty repository" in capsys.readouterr().err
    assert main([*command, "--replace"]) == 0
    repo = server.repos["org/name"]
    assert pushed(repo) == content(tmp_path / "folder") and "model.safetensors" in repo.files
    assert f"pushed to {server.url}/org/name" in capsys.readouterr().out
    assert repo.commits == ["old", "step 0 of run"]


def test_words_without_a_push(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"--workdir={tmp_path}", f"--to={tmp_path / 'x'}", "--replace"]) == 2
    assert "--replace: expected --push=OWNER/NAME beside it" in capsys.readouterr().err
