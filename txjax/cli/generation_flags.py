"""The flags of `txjax generate`, and the prompts and the search that they describe."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.io.text_files import argument_text, read_lines
from txjax.types import UserError

if TYPE_CHECKING:
    from txjax.data import Tokenizer
    from txjax.decoding import Beam, Prompts, Sampling

LENGTH = 256  # tokens to write, if no flag says it

# The fields of `Sampling` that are flags.
DRAWING = {
    "temperature": (float, "0 = greedy; default 0.8"),
    "top_k": (int, "only the k likeliest tokens"),
    "top_p": (float, "only the likeliest tokens with this total probability"),
    "min_p": (float, "only tokens with this fraction of the largest probability"),
    "repetition_penalty": (float, "above 1: tokens that the text already has become less likely"),
}


def add_generation_flags(parser: argparse.ArgumentParser) -> None:
    """Adds them."""
    parser.add_argument("--prompt", help="the text to continue (default a line feed), or the source")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="every line of a file is a prompt, in one batch")
    parser.add_argument("--audio", metavar="FILE[,FILE]", help="recordings (WAV, FLAC), for a run that reads audio")
    parser.add_argument("--times", action="store_true", help="of a run with CTC: the seconds of each word, too")
    parser.add_argument("--length", type=int, default=LENGTH, help="tokens to write, at most")
    parser.add_argument("--samples", type=int, default=1, help="how many texts of a prompt; with --beam, the best")
    for name, (kind, meaning) in DRAWING.items():
        parser.add_argument(f"--{name}", type=kind, help=meaning)
    parser.add_argument("--beam", type=int, metavar="SIZE", help="beam search instead of sampling")
    parser.add_argument("--length_penalty", type=float, help="of --beam (Wu et al. 2016); default 0.6")
    parser.add_argument("--ctc_weight", type=float, help="of CTC in the scores of --beam, for a run of JointCTC")
    parser.add_argument(
        "--end",
        action="append",
        help="where a text ends: a special token's name, or a text of one token; may be given several times; by "
        "default as the data and their tokenizer say",
    )
    parser.add_argument("--seed", type=int, default=0)


def search_of(flags: argparse.Namespace) -> Beam | Sampling:
    """The search that the flags describe. Raises UserError for flags of different searches, or out of range."""
    from txjax.decoding import Beam, JointBeam, Sampling
    from txjax.tree import check_fields

    def set_flags(*names: str) -> dict[str, Any]:
        return {name: getattr(flags, name) for name in names if getattr(flags, name) is not None}

    for name in ("length", "samples"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    drawing = set_flags(*DRAWING)
    of_beam = set_flags("length_penalty", "ctc_weight")
    search: Beam | Sampling
    if flags.beam is None:
        for name, value in of_beam.items():
            raise UserError(f"--{name}", "--beam too", value)
        search = Sampling(**{"temperature": 0.8} | drawing)
    else:
        for name, value in drawing.items():
            raise UserError(f"--{name}", "no --beam, which draws nothing", value)
        if flags.beam < 1:
            raise UserError("--beam", "at least 1", flags.beam)
        if flags.samples > flags.beam:
            raise UserError("--samples", f"at most the {flags.beam} texts of the beam", flags.samples)
        kind = Beam if flags.ctc_weight is None else JointBeam
        search = kind(size=flags.beam, **of_beam)
    check_fields(search, "--")
    return search


def prompts_of(flags: argparse.Namespace, form: Prompts) -> list[str]:
    """The prompts that the flags name: one, the lines of a file that are not empty, or the paths of recordings.

    Raises:
      UserError: flags for another kind of run, several of them, no such file, or one whose text is not in UTF-8.
    """
    if form.flag == "--audio":
        return recordings_of(flags)
    if flags.audio is not None:
        raise UserError("--audio", "--prompt=TEXT, since the run reads texts alone", flags.audio)
    if flags.prompts is None:
        return [form.default if flags.prompt is None else argument_text(flags.prompt, "--prompt")]
    if flags.prompt is not None:
        raise UserError("--prompts", "no --prompt too", flags.prompt)
    lines = read_lines(flags.prompts) if flags.prompts.is_file() else []
    if not any(lines):
        raise UserError("--prompts", "a file with a prompt in each line", str(flags.prompts))
    return [line for line in lines if line]


def recordings_of(flags: argparse.Namespace) -> list[str]:
    """The paths of recordings that the flags name. Raises UserError if there are none, or flags of texts."""
    for name in ("prompt", "prompts"):
        if (value := getattr(flags, name)) is not None:
            raise UserError(f"--{name}", "--audio=FILE, since the run reads audio", str(value))
    paths = [path for path in (flags.audio or "").split(",") if path]
    if not paths:
        raise UserError("--audio", "WAV or FLAC files, since the run reads audio", flags.audio)
    return paths


def token(tokenizer: Tokenizer, name: str) -> int:
    """The special token of this name, or the one token of this text. Raises UserError if there is neither."""
    with contextlib.suppress(UserError):
        return tokenizer.special(name)
    ids = tokenizer.encode(name)
    if len(ids) != 1:
        raise UserError("--end", "a special token's name or a text of one token", name)
    return int(ids[0])
