"""What bash and zsh complete after `txjax`."""

import contextlib
import io
import shutil
import subprocess

import pytest

from txjax.__main__ import main

pytest.importorskip("shtab", reason="pip install '.[completion]'")
pytestmark = pytest.mark.claim(
    "Documentation", "bash completes commands, their flags and the values that a flag may have"
)
ASK = """
COMP_WORDS=({words} ''); COMP_CWORD={index}; COMP_TYPE=9
COMP_WORDS[$COMP_CWORD]='{prefix}'
_shtab_txjax txjax '{prefix}' '{before}' 2> /dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> str:

    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(["completion", "bash"]) == 0
    path = tmp_path_factory.mktemp("completion") / "txjax"
    path.write_text(text.getvalue())
    return str(path)


@pytest.mark.parametrize(
    ("words", "prefix", "choices"),
    [
        ("txjax", "tr", ["train"]),
        ("txjax scaling", "l", ["ladder", "lr_transfer"]),
        ("txjax train", "--pro", ["--process_count", "--process_index", "--profile"]),
        ("txjax train --dry_run", "fi", ["fields"]),
        ("txjax completion", "z", ["zsh"]),
    ],
)
def test_bash_completes(bash_script: str, words: str, prefix: str, choices: list[str]) -> None:
    parts = words.split()
    ask = ASK.format(words=words, index=len(parts), prefix=prefix, before=parts[-1])
    ended = subprocess.run(["bash", "-c", f"source {bash_script}\n{ask}"], capture_output=True, text=True)
    assert sorted(ended.stdout.split()) == choices, ended.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_reads_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    subprocess.run(["zsh", "-n"], input=capsys.readouterr().out, text=True, check=True)


def test_help_still_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The script is made of each command's help; that is printed again afterwards."""
    assert main(["completion", "zsh"]) == 0
    assert "dry_run" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert capsys.readouterr().out.startswith("usage: txjax train")
