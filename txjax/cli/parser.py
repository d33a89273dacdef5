"""The flag parser of every command. A user error raises UserError, which is one line and exit code 2."""

import argparse
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from txjax.aliases import ALIASES
from txjax.checks import Checks
from txjax.errors import UserError, near_misses
from txjax.scoped import Scoped

_collection: Scoped[list["Parser"] | None] = Scoped("parsers_asked_for_help", None)


def collect_parsers() -> contextlib.AbstractContextManager[list["Parser"] | None]:
    """Inside, a parser that is asked for help is added to the list and prints nothing."""
    return _collection.within([])


def is_url(text: str) -> bool:
    """Whether this is the URL of something, not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def workdir_of(text: str) -> Path | str:
    """The value of a flag for a workdir that may be in a bucket: its URL, or a path."""
    return text if is_url(text) else Path(text)


class Parser(argparse.ArgumentParser):
    """argparse with whole flag names only (`--work` is not `--workdir`) and near misses for unknown ones."""

    def __init__(self, command: str, summary: str):
        super().__init__(prog=f"txjax {command}", description=summary, allow_abbrev=False)

    def add_config(self) -> None:
        """Adds `--config`, whose value `config.load` takes; overrides of it are returned by `parse_known`."""
        self.add_argument(
            "--config",
            required=True,
            help="FILE.py, FILE.py:variant or txjax:NAME; --config.a.b=value changes a field; with --help: every field",
        )

    def add_processes(self) -> None:
        """Adds the flags for joining the other processes of a run; `distributed.start` takes their values."""
        group = self.add_argument_group("several processes", "detected under Slurm, on TPU VMs, in Kubernetes")
        group.add_argument("--coordinator_address", metavar="HOST:PORT", help="where process 0 listens")
        group.add_argument("--process_count", type=int, metavar="N", help="how many there are")
        group.add_argument("--process_index", type=int, metavar="I", help="which of them this is, from 0")

    def add_trust(self) -> None:
        """Adds `--trust`, whose values `modules.trusted` takes."""
        self.add_argument(
            "--trust",
            action="append",
            default=[],
            metavar="MODULE",
            help="a module outside txjax whose classes the config uses, or its file: path/mixer.py",
        )

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        """The value of a word. Raises UserError for a URL in the place of a path."""
        if action.type is Path and is_url(text):
            hint = f"`txjax fetch --workdir={text} --to=FOLDER` copies a run from a bucket"
            field = action.option_strings[0] if action.option_strings else str(action.metavar)
            raise UserError(field, "a path", text, hint=hint)
        return super()._get_value(action, text)  # type: ignore[misc]

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        """Parses `args`. Raises UserError for an unknown flag."""
        flags, rest = self.parse_known_args(args, namespace)
        self._refuse(rest)
        return flags

    def parse_known(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Parses `argv` into flags and unparsed overrides, `--config.a.b=value`.

        An override in two words, `--config.a.b value`, is joined to one. With `--help`, prints the help with the
        fields of the config and exits. Raises UserError for any other unknown flag.
        """
        flag_words: list[str] = []
        overrides: list[str] = []
        words = list(argv)
        while words:
            word = words.pop(0)
            if not re.match(r"--config[.\[]", word):
                flag_words.append(word)
            elif "=" in word or not words or words[0].startswith("--"):
                overrides.append(word)
            else:
                overrides.append(f"{word}={words.pop(0)}")
        if {"-h", "--help"} & set(flag_words):
            self._help(flag_words, overrides)
        self._require_config_flag(flag_words)
        flags, rest = self.parse_known_args(flag_words)
        self._refuse(rest, getattr(flags, "config", None), overrides)
        return flags, overrides

    def _require_config_flag(self, words: Sequence[str]) -> None:
        """Raises UserError for a config file without its flag, `txjax train FILE.py`."""
        if any(word.startswith("--config") for word in words):
            return
        for before, word in zip(["", *words], words, strict=False):
            if re.fullmatch(r"[^-].*\.py(:.*)?", word) and ("=" in before or not before.startswith("-")):
                raise UserError(self.prog, "--config=FILE", word, [f"--config={word}"], f"see {self.prog} --help")

    def _help(self, flag_words: list[str], overrides: list[str]) -> NoReturn:
        """Prints the help and, if a config is given, its fields with the overrides applied. Exits."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--config")
        source = parser.parse_known_args(flag_words)[0].config
        if source is None:
            self.print_help()
            self.exit()
        from txjax.cli.fields import fields
        from txjax.config import load

        listed = fields(load(source, overrides))
        self.print_help()
        print(f"\nfields of {source}:")
        for line in listed:
            print(line)
        self.exit()

    def print_help(self, file: Any = None) -> None:
        """Prints the help, or adds this parser to the list of `collect_parsers`."""
        collection = _collection.get()
        if collection is None:
            super().print_help(file)
        else:
            collection.append(self)

    def error(self, message: str) -> NoReturn:
        """Raises UserError; argparse calls this for every user error."""
        missing = [a for a in self._actions if a.required and a.option_strings and a.option_strings[0] in message]
        if "required" in message and missing:
            flags = " and ".join(
                action.option_strings[0] + (f" ({action.help})" if action.help else "") for action in missing
            )
            raise UserError(self.prog, flags, hint=f"see {self.prog} --help")
        raise UserError(self.prog, "other flags", hint=f"{message}; see {self.prog} --help")

    def _refuse(self, words: Sequence[str], source: str | None = None, overrides: Sequence[str] = ()) -> None:
        """Raises UserError if there are words that are no flags of this command, for each of them.

        Args:
          source: a config file, whose fields are searched for near misses. With overrides that are invalid, too, the
            errors of these are added.
        """
        checks = Checks()
        for before, word in zip(["", *words], words, strict=False):
            if word.startswith("-") or "=" in before or not before.startswith("-"):  # else an unknown flag's value
                checks.run(self._unknown, word, source)
        if checks.errors and source:
            from txjax.config import load

            checks.run(load, source, overrides)
        checks.finish()

    def _unknown(self, word: str, source: str | None) -> NoReturn:
        """Raises UserError for an unknown flag. `source`: a config file whose fields are searched for near misses."""
        name = word.split("=")[0]
        if not name.startswith("-"):
            raise UserError(self.prog, "flags", word, hint=f"it takes no such argument; see {self.prog} --help")
        flags = [flag[2:] for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        bare = name.lstrip("-").replace("-", "_")
        near = (bare in ALIASES and _fields(source, bare)) or near_misses(bare, flags) or _fields(source, bare)
        raise UserError(self.prog, "a known flag", name, [f"--{flag}" for flag in near], f"see {self.prog} --help")


def _fields(source: str | None, name: str) -> list[str]:
    """Fields of a config with a similar name."""
    from txjax.config import load
    from txjax.overrides import similar

    with contextlib.suppress(UserError):  # the unknown flag is the error to report first
        return similar(load(source, []), name) if source else []
    return []
