"""Errors of config files and of the files that they import show the last line of the user's own code."""

import pytest

from txjax.__main__ import main

HELPERS = """
def size(count):
    return 96 // count
"""


@pytest.fixture
def start(config, tmp_path, capsys):
    """Starts the tiny config with a text in place of another one, and returns what is printed on stderr."""

    def start(old: str, new: str, *flags: str) -> str:
        (tmp_path / "changed.py").write_text(config.read_text().replace(old, new))
        words = ["train", f"--config={tmp_path / 'changed.py'}", f"--workdir={tmp_path / 'run'}", "--dry_run=fields"]
        assert main([*words, *flags]) == 2
        return capsys.readouterr().err

    return start


def test_an_error_in_a_helper_file_is_shown_with_its_line(start, tmp_path):
    (tmp_path / "helpers_of_size.py").write_text(HELPERS)
    use = "import helpers_of_size\ndef get_config():\n    width = helpers_of_size.size(0)"
    err = start("def get_config():", use)
    assert err == (
        f"txjax: --config: expected a file whose get_config() runs, got '{tmp_path / 'helpers_of_size.py'} (line 3)'; "
        "ZeroDivisionError: integer division or modulo by zero; `return 96 // count`; --traceback shows all\n"
    )
    shown = start("def get_config():", use, "--traceback").splitlines()
    assert shown[0] == "Traceback (most recent call last):" and shown[-1] == err.rstrip("\n")
    assert sum("in get_config" in line for line in shown) == 1


def test_a_syntax_error_of_a_helper_file(start, tmp_path):
    (tmp_path / "broken_helpers.py").write_text("x = 1\ny = = 2\n")
    err = start("def get_config():", "import broken_helpers\ndef get_config():")
    assert f"got '{tmp_path / 'broken_helpers.py'} (line 2)'; SyntaxError: invalid syntax" in err and "`y = = 2`" in err


def test_an_error_in_a_library_is_shown_at_the_line_that_calls_it(start, tmp_path):
    err = start("def get_config():", "import json\ndef get_config():\n    json.loads('{')")
    number = (tmp_path / "changed.py").read_text().splitlines().index("    json.loads('{')") + 1
    assert f"got '{tmp_path / 'changed.py'} (line {number})'; JSONDecodeError: " in err and "`json.loads('{')`" in err


@pytest.mark.parametrize(
    ("new", "near"),
    [
        ("Decoder(widht=16", "a field of Decoder, got 'widht'; did you mean width?"),
        ("Decoder(d_model=16", "a field of Decoder, got 'd_model'; did you mean width?"),
        (
            "__import__('txjax').models.text.decoder.Decoder(n_embd=16",
            "a field of Decoder, got 'n_embd'; did you mean width?",
        ),
    ],
)
def test_a_keyword_that_a_class_does_not_have(start, new, near):
    err = start("Decoder(", new.replace("=16", "=16, "))
    assert near in err and len(err.splitlines()) == 1, err


def test_a_keyword_of_a_class_of_the_user_s_own(start, tmp_path):
    (tmp_path / "own_parts.py").write_text(
        "import dataclasses\n@dataclasses.dataclass\nclass Part:\n    rate: float = 1\n"
    )
    err = start("def get_config():", "import own_parts\ndef get_config():\n    own_parts.Part(rat=2)")
    assert "--config: expected a field of Part, got 'rat'; did you mean rate?; Part has rate; in " in err


def test_a_class_in_place_of_its_instance(start):
    err = start("heads=2)", "heads=2, positions=Decoder)")
    assert err == (
        "txjax: config.model.positions: expected an instance, got 'the class Decoder'; did you mean Decoder()?\n"
    )
    err = start("", "", "--config.model.positions=Alibi")
    assert "config.model.positions: expected Positions, as a literal, got 'Alibi'; did you mean Alibi()?" in err


def test_an_attribute_that_is_no_field(start):
    changed = "def get_config():\n    run = tiny()\n    run.model.widht = 3\n    return run\n\ndef tiny():\n"
    err = start("def get_config():\n", changed)
    assert err == "txjax: config.model.widht: expected a field of Decoder; did you mean width?\n"
