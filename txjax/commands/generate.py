"""txjax generate: text from a trained decoder, encoder-decoder or CTC, of audio too, sampled or by beam search."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from txjax.cli.adapter_runs import add_adapters, sides
from txjax.cli.chat_session import chat
from txjax.cli.fused_language import add_language_flags, fusion_of, open_language
from txjax.cli.generation_flags import add_generation_flags, prompts_of, search_of, token
from txjax.cli.load_run import open_run, parser, read
from txjax.cli.transcription import transcribe
from txjax.terminal_escape import printable
from txjax.types import UserError

SUMMARY = "write text with a trained decoder, encoder-decoder or model with CTC"


def run(argv: list[str]) -> int:
    flag_parser = parser("generate", __doc__)
    add_generation_flags(flag_parser)
    add_language_flags(flag_parser)
    add_adapters(flag_parser)
    flags = flag_parser.parse_args(argv)

    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    from txjax import backend
    from txjax.decoding import Beam, Recomputed, Sampling, generator_for, prompts_for, stream, until
    from txjax.objectives import CTC, model_inputs
    from txjax.train.check import check_without_data

    search = search_of(flags)
    fusion = fusion_of(flags)
    experiment = read(flags)
    if flags.chat:
        return chat(flags, experiment)
    if isinstance(experiment.objective, CTC):
        return transcribe(flags, experiment)
    if flags.times:
        raise UserError("--times", "a run with CTC, since only these have times", type(experiment.objective).__name__)
    form = prompts_for(experiment.data, "--workdir")
    prompts = prompts_of(flags, form)
    copies = 1 if isinstance(search, Beam) else flags.samples
    batch = {name: np.repeat(x, copies, axis=0) for name, x in form.inputs(prompts, form.flag).items()}
    inputs = model_inputs(experiment.model, batch)
    search = search.for_run("--ctc_weight", experiment.model, experiment.objective)
    search.end = form.end if flags.end is None else tuple(token(form.tokenizer, name) for name in flags.end)
    language = open_language(flags, fusion, form, search.end)
    if language is not None:
        print(language.description, file=sys.stderr)

    def text(prompt: str, row: Any) -> str:
        return form.text(prompt, until(np.asarray(row), search.end))

    with open_run(flags, experiment, check_without_data) as loaded:
        (window,) = experiment.data.spec()["tokens"].shape
        generator = generator_for(experiment.model, loaded.variables, inputs, window)
        if isinstance(generator, Recomputed):
            name = type(experiment.model).__name__
            print(f"{name} has no cache: each token is computed from the last {window} anew", file=sys.stderr)
        key = jax.random.key(flags.seed)
        several = len(prompts) > 1 or flags.samples > 1 or flags.adapters
        if isinstance(search, Sampling) and not several and not flags.json:
            parts = stream(generator, loaded.variables, inputs, flags.length, key, search)
            show(form.text_before(prompts[0]), functools.partial(text, prompts[0]), parts)
            return 0
        of_language = None
        if language is not None:
            of_language = language.variables(NamedSharding(loaded.layout.batch.mesh, PartitionSpec()))
            generator = language.fuse(generator, of_language, len(prompts))
        program = backend.jit(writing_program(generator, search, flags.length))
        for side in sides(flags, experiment, loaded):
            variables = side.variables if language is None else (side.variables, of_language)
            answers = jax.device_get(program(variables, inputs, key))
            if flags.adapters and not flags.json:
                print(f"== {side.workdir}, step {side.step}")
            for i, prompt in enumerate(prompts):
                if isinstance(search, Beam):
                    tokens = answers.tokens[i][answers.exist[i]]
                    more = {"scores": answers.scores[i][answers.exist[i]][: flags.samples].tolist()}
                else:
                    tokens = answers.reshape(len(prompts), flags.samples, -1)[i]
                    more = {}
                texts = [text(prompt, row) for row in tokens[: flags.samples]]
                run = {"run": str(side.workdir)} if flags.adapters else {}
                record = {**run, "step": side.step, **form.record(prompt), "texts": texts, **more}
                shown = printable(("\n" if i else "") + "\n\n".join(form.text_before(prompt) + text for text in texts))
                print(json.dumps(record) if flags.json else shown)
    return 0


def writing_program(generator: Any, search: Any, length: int) -> Callable[..., Any]:
    """What a search finds with a generator, as a function of variables, inputs and a key."""
    from txjax.decoding import Beam

    if isinstance(search, Beam):
        return lambda variables, inputs, key: search.hypotheses(generator, variables, inputs, length)
    return lambda variables, inputs, key: search(generator, variables, inputs, length, key)


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
