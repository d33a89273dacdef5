"""txjax generate: samples text from a trained decoder, from its workdir alone."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from txjax.cli.load_run import opened, parser, read
from txjax.visible import LAYOUT, visible

SUMMARY = "write text with a trained decoder"


def run(argv: list[str]) -> int:
    flag_parser = parser("generate", __doc__)
    flag_parser.add_argument("--prompt", default="\n", help="the text to continue")
    flag_parser.add_argument("--length", type=int, default=256, help="tokens to write")
    flag_parser.add_argument("--samples", type=int, default=1, help="how many texts")
    flag_parser.add_argument("--temperature", type=float, default=0.8, help="0 = greedy")
    flag_parser.add_argument("--top_k", type=int, help="only the k likeliest tokens")
    flag_parser.add_argument("--top_p", type=float, help="only the likeliest tokens with this total probability")
    flag_parser.add_argument("--seed", type=int, default=0)
    flags = flag_parser.parse_args(argv)

    import jax
    import jax.numpy as jnp
    import numpy as np

    from txjax.eval.generate import Recomputed, Sampling, stream, writer
    from txjax.tree import check_fields
    from txjax.types import UserError

    sampling = Sampling(flags.temperature, flags.top_k, flags.top_p)
    check_fields(sampling, "--")
    for name in ("length", "samples"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    experiment = read(flags)
    tokenizer = getattr(experiment.data, "tokenizer", None)
    if tokenizer is None or "targets" not in experiment.data.spec():
        raise UserError("--workdir", "a run of a decoder on text", type(experiment.model).__name__)
    prompt = tokenizer.encode(flags.prompt)
    if len(prompt) == 0:
        hint = "a decoder continues a text, such as --prompt='The '"
        raise UserError("--prompt", "at least one token", flags.prompt, hint=hint)
    with opened(flags, experiment) as found:
        given = jnp.tile(jnp.asarray(prompt, jnp.int32), (flags.samples, 1))
        (window,) = experiment.data.spec()["tokens"].shape
        how = writer(experiment.model, found.variables, window)
        if isinstance(how, Recomputed):
            name = type(experiment.model).__name__
            print(f"{name} has no cache: each token is computed from the last {window} anew", file=sys.stderr)
        parts = stream(how, found.variables, given, flags.length, jax.random.key(flags.seed), sampling)
        if flags.samples == 1 and not flags.json:
            show(flags.prompt, tokenizer.decode, parts)
            return 0
        tokens = np.concatenate(list(parts), axis=1)
    texts = [tokenizer.decode(row) for row in tokens]
    if flags.json:
        print(json.dumps({"step": found.step, "prompt": flags.prompt, "texts": texts}))
    else:
        print(printable("\n\n".join(flags.prompt + text for text in texts)))
    return 0


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
