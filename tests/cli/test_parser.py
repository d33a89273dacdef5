"""Every user error in a command's flags is a UserError."""

import pytest

from txjax.cli.parser import Parser
from txjax.types import UserError


def parser() -> Parser:
    parser = Parser("play", "a command")
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--config")
    parser.add_argument("--steps", type=int, default=1)
    return parser


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--workdir=a", "--stesp=3"], "expected a known flag, got '--stesp'; did you mean --steps"),
        (["--work=a"], "txjax play: expected --workdir; see"),
        (["--workdir=a", "--steps=x"], "invalid int value: 'x'"),
        (["--workdir=a", "b"], "got 'b'; it takes no such argument"),
        (["--workdir=a", "--config.width=1"], "got '--config.width'"),
    ],
)
def test_mistakes(argv: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parser().parse_args(argv)
    assert caught.value.field == "txjax play"
    assert "\n" not in str(caught.value)


def test_overrides_are_set_apart() -> None:
    argv = ["--config.a.b=1", "--workdir", "w", "--config.c", "-2", "--config=f.py:big", "--config.flag", "--steps=3"]
    flags, overrides = parser().parse_known([*argv, "--config.d[0].e=x"])
    assert vars(flags) == {"workdir": "w", "config": "f.py:big", "steps": 3}
    assert overrides == ["--config.a.b=1", "--config.c=-2", "--config.flag", "--config.d[0].e=x"]
    with pytest.raises(UserError, match="got '--configs.a'"):
        parser().parse_known(["--workdir=w", "--configs.a=1"])


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(["--help"])
    assert caught.value.code == 0
    assert "usage: txjax play" in capsys.readouterr().out
