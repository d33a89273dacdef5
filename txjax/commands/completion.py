"""txjax completion SHELL: prints a script with which the shell completes commands, flags and their choices.

txjax completion bash > ~/.local/share/bash-completion/completions/txjax
txjax completion zsh > "${fpath[1]}/_txjax"
"""

from txjax.cli.parser import Parser
from txjax.errors import require

SUMMARY = "print a script for completing commands and flags in bash or zsh"


def run(argv: list[str]) -> int:
    parser = Parser("completion", __doc__)
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell that reads the script")
    flags = parser.parse_args(argv)
    require("shtab", "shtab", "txjax completion", extra="completion")
    from txjax.cli.completion import script

    print(script(flags.shell))
    return 0
