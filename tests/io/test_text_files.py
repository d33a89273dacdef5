"""Text that people give: UTF-8 in every locale, with lines that end at a line feed alone."""

import json
import subprocess
import sys

import pytest

from txjax.__main__ import main
from txjax.io.text_files import argument_text, lines_of, read_lines
from txjax.types import UserError

from helpers import runs

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ODD = "a\u2028b\fc\x85d\x1ce\rf\vg"  # characters at which `str.splitlines` splits


def in_c_locale(*words: str | bytes) -> subprocess.CompletedProcess:
    """A command in a locale of ASCII, without Python's UTF-8 mode."""
    own = runs.environment() | C_LOCALE
    return subprocess.run([sys.executable, "-m", "txjax", *words], capture_output=True, env=own)


def generated(workdir, capsys, *flags: str) -> tuple[int, list[dict], str]:
    """Exit code, JSON and stderr of `generate`."""
    code = main(["generate", f"--workdir={workdir}", "--length=1", "--temperature=0", "--json", *flags])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_lines_end_at_line_feeds_alone(tmp_path):
    (tmp_path / "lines").write_bytes(f"\ufeff{ODD}\r\n\nlast".encode())
    assert read_lines(tmp_path / "lines") == [ODD, "", "last"]
    assert lines_of(f"{ODD}\n\nx") == [f"{ODD}\n", "\n", "x"] and lines_of("") == []


def test_prompts_are_lines_of_a_file(straight_run, tmp_path, capsys):
    (tmp_path / "prompts").write_bytes(f"\ufeff{ODD}\r\n\nsecond\n".encode())
    code, texts, err = generated(straight_run, capsys, f"--prompts={tmp_path / 'prompts'}")
    assert code == 0, err
    assert [text["prompt"] for text in texts] == [ODD, "second"]


@pytest.mark.parametrize(
    ("content", "byte"),
    [
        ("good\ncaf\u00e9\n".encode("latin-1"), "0xe9 at offset 8"),
        (b"\xef\xbb\xbfab\xff", "0xff at offset 5"),
        ("x".encode("utf-16"), "0xff at offset 0"),
    ],
)
def test_prompts_of_another_encoding_are_one_line(straight_run, tmp_path, capsys, content, byte):
    path = tmp_path / "prompts"
    path.write_bytes(content)
    code, _, err = generated(straight_run, capsys, f"--prompts={path}")
    hint = "convert it from the encoding that it has, such as: iconv -f ISO-8859-1 -t UTF-8 prompts > NEW"
    assert code == 2 and err == f"txjax: {path}: expected text in UTF-8, got 'the byte {byte}'; {hint}\n"


@pytest.mark.parametrize("name", ["runs.csv", "runs.jsonl"])
def test_tables_of_another_encoding_are_one_line(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(b"N,D,loss\n1,2,\xe9\n")
    assert main(["scaling", "fit", f"--data={tmp_path / name}"]) == 2
    assert f"{tmp_path / name}: expected text in UTF-8, got 'the byte 0xe9 at offset 13'" in capsys.readouterr().err


def test_a_flag_in_utf_8_where_the_locale_has_no_such_characters():
    assert argument_text("café", "--prompt") == "café"
    assert argument_text("caf\udcc3\udca9", "--prompt") == "café"
    with pytest.raises(UserError, match="--prompt: expected text in UTF-8, got 'the byte 0xe9 at offset 3'"):
        argument_text("caf\udce9", "--prompt")


def test_help_in_a_c_locale():
    done = in_c_locale("--help")
    assert (done.returncode, done.stderr) == (0, b"") and b"usage: txjax COMMAND" in done.stdout


@pytest.mark.slow
def test_generate_in_a_c_locale(straight_run, tmp_path):
    """What the output's encoding lacks is escaped."""
    (tmp_path / "prompts").write_text("café\n", encoding="utf-8")
    for flag in ("--prompt=café".encode(), f"--prompts={tmp_path / 'prompts'}".encode()):
        done = in_c_locale("generate", f"--workdir={straight_run}", "--length=1", "--temperature=0", flag)
        assert done.returncode == 0 and b"caf\\xe9" in done.stdout, done.stderr
        assert b"Traceback" not in done.stderr
