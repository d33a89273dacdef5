"""txjax generate: text from a trained decoder, sampled or by beam search, from its workdir alone."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.load_run import opened, parser, read
from txjax.visible import LAYOUT, visible

if TYPE_CHECKING:
    from txjax.data import Tokenizer
    from txjax.decoding import Beam, Sampling

SUMMARY = "write text with a trained decoder"


def run(argv: list[str]) -> int:
    flag_parser = parser("generate", __doc__)
    flag_parser.add_argument("--prompt", help="the text to continue; default a line feed")
    flag_parser.add_argument("--prompts", type=Path, metavar="FILE", help="continue every line of a file, in one batch")
    flag_parser.add_argument("--length", type=int, default=256, help="tokens to write")
    flag_parser.add_argument("--samples", type=int, default=1, help="how many texts of a prompt; with --beam, the best")
    flag_parser.add_argument("--temperature", type=float, help="0 = greedy; default 0.8")
    flag_parser.add_argument("--top_k", type=int, help="only the k likeliest tokens")
    flag_parser.add_argument("--top_p", type=float, help="only the likeliest tokens with this total probability")
    flag_parser.add_argument("--beam", type=int, metavar="SIZE", help="beam search instead of sampling")
    flag_parser.add_argument("--length_penalty", type=float, help="of --beam (Wu et al. 2016); default 0.6")
    flag_parser.add_argument("--end", help="where a text ends: a special token's name, or a text of one token")
    flag_parser.add_argument("--seed", type=int, default=0)
    flags = flag_parser.parse_args(argv)

    import jax
    import numpy as np

    from txjax import backend
    from txjax.decoding import Beam, Recomputed, generator_for, padded, stream, until
    from txjax.types import UserError

    search = search_of(flags)
    for name in ("length", "samples"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    if isinstance(search, Beam) and flags.samples > search.size:
        raise UserError("--samples", f"at most the {search.size} texts of the beam", flags.samples)
    experiment = read(flags)
    tokenizer = getattr(experiment.data, "tokenizer", None)
    if tokenizer is None or "targets" not in experiment.data.spec():
        raise UserError("--workdir", "a run of a decoder on text", type(experiment.model).__name__)
    prompts = prompts_of(flags)
    encoded = [np.asarray(tokenizer.encode(prompt), np.int32) for prompt in prompts]
    for prompt, ids in zip(prompts, encoded, strict=True):
        if len(ids) == 0:
            hint = "a decoder continues a text, such as --prompt='The '"
            raise UserError("--prompt", "at least one token", prompt, hint=hint)
    search.end = None if flags.end is None else token(tokenizer, flags.end)

    def text(row: Any) -> str:
        return str(tokenizer.decode(until(np.asarray(row), search.end)))

    with opened(flags, experiment) as found:
        inputs = padded([ids for ids in encoded for _ in range(1 if isinstance(search, Beam) else flags.samples)])
        (window,) = experiment.data.spec()["tokens"].shape
        generator = generator_for(experiment.model, found.variables, inputs, window)
        if isinstance(generator, Recomputed):
            name = type(experiment.model).__name__
            print(f"{name} has no cache: each token is computed from the last {window} anew", file=sys.stderr)
        if isinstance(search, Beam):
            program = backend.jit(lambda v, given: search.hypotheses(generator, v, given, flags.length))
            hypotheses = jax.device_get(program(found.variables, inputs))
            pairs = zip(hypotheses.tokens, hypotheses.scores, hypotheses.exist, strict=True)
            answers = [(tokens[exist], scores[exist].tolist()) for tokens, scores, exist in pairs]
        else:
            parts = stream(generator, found.variables, inputs, flags.length, jax.random.key(flags.seed), search)
            if len(prompts) == flags.samples == 1 and not flags.json:
                show(prompts[0], text, parts)
                return 0
            written = np.concatenate(list(parts), axis=1)
            answers = [(tokens, None) for tokens in written.reshape(len(prompts), flags.samples, -1)]
    for i, (prompt, (tokens, scores)) in enumerate(zip(prompts, answers, strict=True)):
        texts = [text(row) for row in tokens[: flags.samples]]
        record = {"step": found.step, "prompt": prompt, "texts": texts}
        if scores is not None:
            record["scores"] = scores[: flags.samples]
        shown = printable(("\n" if i else "") + "\n\n".join(prompt + text for text in texts))
        print(json.dumps(record) if flags.json else shown)
    return 0


def prompts_of(flags: argparse.Namespace) -> list[str]:
    """The prompts that the flags name: one, or the lines of a file that are not empty."""
    from txjax.types import UserError

    if flags.prompts is None:
        return ["\n" if flags.prompt is None else flags.prompt]
    if flags.prompt is not None:
        raise UserError("--prompts", "no --prompt too", flags.prompt)
    lines = flags.prompts.read_text().splitlines() if flags.prompts.is_file() else []
    if not any(lines):
        raise UserError("--prompts", "a file with a prompt in each line", str(flags.prompts))
    return [line for line in lines if line]


def search_of(flags: argparse.Namespace) -> "Beam | Sampling":
    """The search that the flags describe. Raises UserError if they are of different searches."""
    from txjax.decoding import Beam, Sampling
    from txjax.tree import check_fields
    from txjax.types import UserError

    def given(*names: str) -> dict[str, Any]:
        return {name: getattr(flags, name) for name in names if getattr(flags, name) is not None}

    drawing, penalty = given("temperature", "top_k", "top_p"), given("length_penalty")
    if flags.beam is None:
        if penalty:
            raise UserError("--length_penalty", "--beam too", *penalty.values())
        search: Beam | Sampling = Sampling(**{"temperature": 0.8} | drawing)
    else:
        for name, value in drawing.items():
            raise UserError(f"--{name}", "no --beam, which draws nothing", value)
        if flags.beam < 1:
            raise UserError("--beam", "at least 1", flags.beam)
        search = Beam(flags.beam, **penalty)
    check_fields(search, "--")
    return search


def token(tokenizer: "Tokenizer", name: str) -> int:
    """The special token of this name, or the one token of this text. Raises UserError if there is neither."""
    from txjax.types import UserError

    with contextlib.suppress(UserError):
        return tokenizer.special(name)
    ids = tokenizer.encode(name)
    if len(ids) != 1:
        raise UserError("--end", "a special token's name or a text of one token", name)
    return int(ids[0])


def show(prompt: str, decode: Callable[[Any], str], parts: Iterable[Any]) -> None:
    """Prints one text while it is sampled. Characters that later tokens may still change are printed later.

    Args:
      decode: returns the text of tokens [N].
      parts: tokens [1 N], in chunks.
    """
    print(printable(prompt), end="", flush=True)
    tokens: list[Any] = []
    text, shown = "", 0
    for part in parts:
        tokens += part[0].tolist()
        before, text = text, decode(tokens)
        sure = len(os.path.commonprefix([before, text]).rstrip("\ufffd"))  # an incomplete character decodes to U+FFFD
        print(printable(text[shown:sure]), end="", flush=True)
        shown = max(shown, sure)
    print(printable(text[shown:]))


def printable(text: str) -> str:
    """The text with control characters escaped if stdout is a terminal, since a model may generate some."""
    return visible(text, LAYOUT) if sys.stdout.isatty() else text
