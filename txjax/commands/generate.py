"""txjax generate: text from a trained decoder, encoder-decoder or CTC, of audio too, sampled or by beam search."""

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from txjax.cli.adapter_runs import add_adapters
from txjax.cli.chat_session import chat
from txjax.cli.fused_language import add_language_flags, fusion_of
from txjax.cli.generation_flags import add_generation_flags, search_of
from txjax.cli.load_run import open_run, parser, read
from txjax.cli.transcription import transcribe
from txjax.errors import UserError
from txjax.terminal_escape import printable

SUMMARY = "write text with a trained decoder, encoder-decoder or model with CTC"


def flags_of(argv: list[str]) -> argparse.Namespace:
    """The flags of the command."""
    flag_parser = parser("generate", __doc__)
    add_generation_flags(flag_parser)
    add_language_flags(flag_parser)
    add_adapters(flag_parser)
    return flag_parser.parse_args(argv)


def run(argv: list[str]) -> int:
    flags = flags_of(argv)

    import jax

    from txjax.cli.writing import task_of, window_of, write_texts
    from txjax.decoding import Recomputed, Sampling, generator_for, stream
    from txjax.objectives import CTC
    from txjax.train.check import check_without_data

    search_of(flags)  # before the run is read
    fusion_of(flags)
    experiment = read(flags)
    if flags.chat:
        return chat(flags, experiment)
    if isinstance(experiment.objective, CTC):
        return transcribe(flags, experiment)
    if flags.times:
        raise UserError("--times", "a run with CTC, since only these have times", type(experiment.objective).__name__)
    task = task_of(flags, experiment)
    if task.language is not None:
        print(task.language.description, file=sys.stderr)
    with open_run(flags, experiment, check_without_data) as opened:
        generator = generator_for(experiment.model, opened.variables, task.inputs, window_of(experiment))
        if isinstance(generator, Recomputed):
            name = type(experiment.model).__name__
            window = window_of(experiment)
            print(f"{name} has no cache: each token is computed from the last {window} anew", file=sys.stderr)
        several = len(task.prompts) > 1 or flags.samples > 1 or flags.adapters
        if isinstance(task.search, Sampling) and not several and not flags.json:
            key = jax.random.key(flags.seed)
            parts = stream(generator, opened.variables, task.inputs, flags.length, key, task.search)
            (prompt,) = task.prompts
            show(task.form.text_before(prompt), functools.partial(task.text, prompt), parts)
            return 0
        for number, written in enumerate(write_texts(task, flags, experiment, opened)):
            if flags.adapters and not flags.json and number % len(task.prompts) == 0:
                print(f"== {written.workdir}, step {written.step}")
            before = task.form.text_before(written.prompt)
            named = {"run": str(written.workdir)} if flags.adapters else {}
            form = task.form.record(written.prompt)
            record = {**named, "step": written.step, **form, "texts": written.texts, **written.scores}
            apart = "\n" if number % len(task.prompts) else ""
            shown = printable(apart + "\n\n".join(before + text for text in written.texts))
            print(json.dumps(record) if flags.json else shown)
    return 0


def show(before: str, decode: Callable[[Any], str], parts: Iterable[Any]) -> None:
    """Prints one text while it is sampled. Characters that later tokens may still change are printed later.

    Args:
      before: what is printed first.
      decode: returns the text of tokens [N].
      parts: tokens [1 N], in chunks.
    """
    print(printable(before), end="", flush=True)
    tokens: list[Any] = []
    text = ""
    shown = 0
    for part in parts:
        tokens += part[0].tolist()
        before = text
        text = decode(tokens)
        sure = len(os.path.commonprefix([before, text]).rstrip("\ufffd"))  # an incomplete character decodes to U+FFFD
        print(printable(text[shown:sure]), end="", flush=True)
        shown = max(shown, sure)
    print(printable(text[shown:]))
