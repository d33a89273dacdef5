"""Shared code of the launchers: flags, a copy of the code and the config, one-line user errors.

It imports only the standard library, not txjax, so a launcher runs on any login node. It starts the command that a user
would type.
"""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import datetime
import difflib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
SWITCHES = ("--allow_config_change",)  # of txjax train, without a value
PREEMPTED = 75  # txjax's exit code for "preempted and saved, start me again"


class UserError(Exception):
    """A user error: printed as one line, exit code 2."""


def run(main: Callable[[list[str]], None]) -> NoReturn:
    """Runs a launcher with this process's arguments and ends the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what is rendered is UTF-8 in every locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        main(sys.argv[1:])
    except UserError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


class Flags(argparse.ArgumentParser):
    """argparse without abbreviated flags, with near misses for unknown ones, and overrides returned separately."""

    def __init__(self, summary: str):
        super().__init__(description=summary, allow_abbrev=False)
        self.add_argument("--config", required=True, help="FILE.py or FILE.py:variant; --config.a.b=value goes along")
        self.add_argument("--workdir", required=True, help="the run's folder")

    def read(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The launcher's own flags, and the flags of `txjax train` as typed: `--config.a.b=value` ...

        Raises:
          UserError: an unknown flag, or a control character.
        """
        for word in argv:
            check_plain(word)
        overrides = [word for word in argv if is_trains(word)]
        flags, rest = self.parse_known_args([word for word in argv if not is_trains(word)])
        if rest:
            known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            raise UserError(f"{rest[0]}: expected a known flag" + near(rest[0].split("=")[0], known))
        for word in overrides:
            if not is_whole(word):
                raise UserError(f"{word}: expected {word}=VALUE, in one word")
        return flags, overrides

    def error(self, message: str) -> NoReturn:
        """Raises UserError; argparse calls it for every error."""
        raise UserError(message)


def check_plain(word: str) -> None:
    """Raises UserError for control characters: a line break would start a new line of the script."""
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in word):
        raise UserError(f"{word.partition('=')[0]!a}: expected a word without control characters, got {word!a}")


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean --workdir?`, or ""."""
    found = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return "; did you mean " + " or ".join(found) + "?" if found else ""


def is_trains(word: str) -> bool:
    """Whether a word is a flag that is passed to `txjax train` unchanged."""
    return word in SWITCHES or re.match(r"--config[.\[]|--(until|point)\b", word) is not None


def is_whole(word: str) -> bool:
    """Whether a flag includes its value."""
    return "=" in word or word in SWITCHES


def count(text: str) -> int:
    """Parses a flag's value: a positive integer."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def need(program: str, where: str) -> str:
    """The path of a program. Raises UserError if it is not on the PATH."""
    found = shutil.which(program)
    if found is None:
        raise UserError(f"{program}: expected on the PATH of {where}; --dry_run shows what would be run")
    return found


def config_file(source: str) -> tuple[Path, str]:
    """The file of `FILE.py[:variant]` and `:variant`. Raises UserError if there is no such file."""
    name, colon, variant = source.partition(":")
    path = Path(name)
    if not path.is_file():
        nearby = [str(p) for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise UserError(f"--config: expected a Python file, got {name}" + near(name, nearby))
    return path, colon + variant


def utf8_text(path: Path) -> str:
    """The text of a file, without a byte order mark. Raises UserError if it is not in UTF-8."""
    try:
        return path.read_bytes().removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise UserError(f"{path}: expected text in UTF-8, got {byte}; iconv converts it") from None


def check_writable(workdir: Path) -> None:
    """Raises UserError if `workdir` is not writable; creates nothing."""
    there = next(folder for folder in (workdir, *workdir.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--workdir: expected a writable folder, got {there}")


@dataclasses.dataclass
class Launch:
    """One launch: its folder `WORKDIR/launch/TIME`, with `code/`, the config file, `launch.json` and the script."""

    folder: Path
    source: Path
    variant: str
    commit: str
    changed: list[str]
    untracked: list[str]

    @property
    def code(self) -> Path:
        return self.folder / "code"

    @property
    def config(self) -> str:
        """The value of --config: the copy in the launch's folder."""
        return f"{self.folder / self.source.name}{self.variant}"

    def in_image(self, workdir: Any) -> list[str]:
        """The command in a container whose image has the code and whose /config has the config."""
        config = f"--config=/config/{self.source.name}{self.variant}"
        return ["python", "-m", "txjax", "train", config, f"--workdir={workdir}"]

    @property
    def version(self) -> str:
        """The commit and the number of changed files, as text."""
        return self.commit[:12] + (f" with {len(self.changed)} changed files" if self.changed else "")

    def write(self, notes: dict[str, Any]) -> None:
        """Copies code and config into the folder, and writes launch.json."""
        self.code.mkdir(parents=True)
        # A commit of the tracked files in their current state; the checkout and its stash are not changed.
        tree = git("stash", "create") or self.commit
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", tree], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(self.code)], input=archive, check=True)
        note = {"commit": self.commit, "dirty": bool(self.changed)}
        (self.code / "txjax" / "commit.json").write_text(json.dumps(note) + "\n", encoding="utf-8")
        shutil.copy(self.source, self.folder / self.source.name)
        self.note(dataclasses.asdict(self) | {"argv": sys.argv} | notes)

    def note(self, notes: dict[str, Any]) -> None:
        """Adds to launch.json."""
        path = self.folder / "launch.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(before | notes, indent=2, default=str) + "\n", encoding="utf-8")


def prepare(workdir: Path | None, config: str) -> Launch:
    """Validates checkout, config and workdir; writes nothing.

    Args:
      workdir: of the run. If None, it is on other machines.
      config: `FILE.py[:variant]`.

    Raises:
      UserError: no such config, no checkout, a workdir that is not writable, control characters in a path.
    """
    source, variant = config_file(config)
    if workdir is None:
        workdir = ROOT
    else:
        check_writable(workdir)
    for path in (workdir, source.resolve()):  # with links and the current folder resolved
        check_plain(str(path))
    now = datetime.datetime.now(datetime.UTC)
    folder = workdir / "launch" / now.strftime("%Y%m%dT%H%M%S.%f")[:-3]
    changed = git("diff", "--name-only", "HEAD").splitlines()
    untracked = git("ls-files", "--others", "--exclude-standard").splitlines()
    return Launch(folder, source.resolve(), variant, git("rev-parse", "HEAD"), changed, untracked)


def check_config(python: str, config: str, runs: Sequence[Sequence[str]]) -> None:
    """Validates the config of every run with the checkout's `txjax train`, before the run waits in a queue.

    Of runs that set the same fields, only the first is validated. If txjax cannot run here, prints a message.

    Raises:
      UserError: the error of `txjax train`.
    """
    kinds = {tuple(word.partition("=")[0] for word in words): words for words in reversed(runs)}
    paths = [str(ROOT), os.environ.get("PYTHONPATH", ""), os.getcwd()]
    environment = os.environ | {"PYTHONPATH": ":".join(filter(None, paths)), "JAX_PLATFORMS": "cpu"}
    for words in kinds.values():
        command = [python, "-P", "-m", "txjax", "train", f"--config={config}", *words, "--dry_run=fields"]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)
        except OSError as error:
            print(f"the config was not validated: {error}", file=sys.stderr)
            return
        last = (done.stderr.strip().splitlines() or ["(nothing)"])[-1]
        if done.returncode == 2:
            raise UserError(last.removeprefix("txjax: "))
        if done.returncode:
            print(f"the config was not validated: {python}: {last}", file=sys.stderr)
            return


def git(*words: str) -> str:
    """The output of git in txjax's checkout. Raises UserError if there is no checkout."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        message = " ".join(message.split())
        raise UserError(f"git: expected a checkout in {ROOT} to take the code from; {message}") from None
    return done.stdout.strip()


def quoted(words: Iterable[str], indent: str = "    ") -> str:
    """A shell command, one word a line."""
    return f" \\\n{indent}".join(shlex.quote(word) for word in words)
