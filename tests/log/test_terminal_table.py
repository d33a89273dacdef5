"""Tables on terminals of several widths, and where there is none."""

import pytest

from txjax.log.terminal_table import table

COLUMNS = ["FLOPs", "width x depth x heads", "N", "lr"]
ROWS = [["1.09e+11", "32 x 4 x 2", "67.8k", "0.0028"]]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_without_a_terminal_lines_have_any_length(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table("a title that is longer than its table", ["point", "steps"], [["p" * 120, "6"]])
    assert printed(capsys) == [
        "a title that is longer than its table",
        f" point{' ' * 115} ┃ steps",
        f"{'━' * 122}╇━━━━━━━",
        f" {'p' * 120} │     6",
    ]


def test_headers_are_broken_between_words(capsys, monkeypatch):
    """Numbers and words stay whole."""
    monkeypatch.setenv("COLUMNS", "44")
    table("", COLUMNS, ROWS)
    assert printed(capsys) == [
        "          ┃ width x depth ┃       ┃",
        " FLOPs    ┃       x heads ┃     N ┃     lr",
        "━━━━━━━━━━╇━━━━━━━━━━━━━━━╇━━━━━━━╇━━━━━━━━",
        " 1.09e+11 │    32 x 4 x 2 │ 67.8k │ 0.0028",
    ]


def test_a_table_that_is_too_wide_is_a_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    table("1 run", COLUMNS, [[*ROWS[0][:3], ""]])
    assert printed(capsys) == ["1 run", "FLOPs 1.09e+11", "  width x depth x heads: 32 x 4 x 2", "  N: 67.8k"]


def test_markup_and_control_characters_are_text(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table("[red]", ["a[b]"], [["\x1b[31m\n"]])
    assert printed(capsys) == ["[red]", " a[b]", "━━━━━━━━━━━━", " \\x1b[31m\\n"]
