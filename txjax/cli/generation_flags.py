"""The flags of `txjax generate`, and the prompts and the search that they describe."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.errors import UserError
from txjax.io.text_files import argument_text, read_lines

if TYPE_CHECKING:
    from txjax.data import Tokenizer
    from txjax.decoding import Beam, Prompts, Sampling
    from txjax.decoding.pictured_prompts import PicturedPrompt

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
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='every line of a file is a prompt, in one batch; of a run on images {"prompt": TEXT, "image": FILE}',
    )
    parser.add_argument("--image", metavar="FILE[,FILE]", help="what --prompt asks about, for a run that reads images")
    parser.add_argument(
        "--chat",
        action="store_true",
        help="questions from standard input, of a run on conversations; the turns before stay in the cache",
    )
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


def prompts_of(flags: argparse.Namespace, form: Prompts) -> list[Any]:
    """The prompts that the flags name: one, the lines of a file that are not empty, the paths of recordings, or
    questions about images.

    Raises:
      UserError: flags for another kind of run, several of them, no such file, or one whose text is not in UTF-8.
    """
    for flag in ("--audio", "--image"):
        if (value := getattr(flags, flag[2:])) is not None and form.flag != flag:
            raise UserError(flag, f"{form.flag}, since the run reads no {flag[2:]}", value)
    if form.flag == "--audio":
        return recordings_of(flags)
    if form.flag == "--image":
        return questions_of(flags)
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


def questions_of(flags: argparse.Namespace) -> list[PicturedPrompt]:
    """The questions about images that the flags name: one, or the questions of a file.

    Raises:
      UserError: there is none, or a line of the file has another form.
    """
    from txjax.decoding.pictured_prompts import PicturedPrompt

    if flags.prompts is None:
        if flags.prompt is None:
            raise UserError("--prompt", "a question, since the run answers questions about images", None)
        images = tuple(path for path in (flags.image or "").split(",") if path)
        return [PicturedPrompt(argument_text(flags.prompt, "--prompt"), images)]
    for flag in ("prompt", "image"):
        if (value := getattr(flags, flag)) is not None:
            raise UserError("--prompts", f"no --{flag} too", value)
    lines = read_lines(flags.prompts) if flags.prompts.is_file() else []
    questions = [read_question(line, f"--prompts: line {number}") for number, line in enumerate(lines, 1) if line]
    if not questions:
        raise UserError("--prompts", "a file with a question in each line", str(flags.prompts))
    return questions


def read_question(line: str, field: str) -> PicturedPrompt:
    """The question of a line of JSON. Raises UserError for another form."""
    from txjax.decoding.pictured_prompts import PicturedPrompt

    try:
        record = json.loads(line)
        images = record.get("image", [])
        files = (images,) if isinstance(images, str) else tuple(images)
        if not isinstance(record["prompt"], str) or not all(isinstance(file, str) for file in files):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(field, 'JSON such as {"prompt": "How many?", "image": "a.png"}', line) from None
    return PicturedPrompt(record["prompt"], files)


def token(tokenizer: Tokenizer, name: str) -> int:
    """The special token of this name, or the one token of this text. Raises UserError if there is neither."""
    with contextlib.suppress(UserError):
        return tokenizer.special(name)
    ids = tokenizer.encode(name)
    if len(ids) != 1:
        raise UserError("--end", "a special token's name or a text of one token", name)
    return int(ids[0])
