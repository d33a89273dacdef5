"""`txjax generate --chat`: questions from standard input, answered with the turns before in the cache."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from txjax.cli.generation_flags import search_of
from txjax.cli.load_run import open_run
from txjax.errors import UserError
from txjax.terminal_escape import printable

if TYPE_CHECKING:
    from txjax.decoding.pictured_prompts import PicturedPrompt
    from txjax.experiment import Experiment

HELP = "/forget begins a new conversation, /image FILE[,FILE] is for the next question, /quit ends"


def chat(flags: argparse.Namespace, experiment: Experiment) -> int:
    """Answers each line of standard input, until its end or `/quit`.

    A line that can't be answered is one line on standard error, and the conversation stays as it was.

    Raises:
      UserError: flags that a chat has no use for, or a run on other data than conversations, or without a cache.
    """
    import jax

    from txjax.data import Conversations
    from txjax.decoding import Beam, Chat, Conversation, Recomputed, generator_for
    from txjax.decoding.pictured_prompts import PicturedPrompts
    from txjax.objectives import model_inputs
    from txjax.train.check import check_without_data

    search = search_of(flags)
    check_flags(flags)
    if isinstance(search, Beam):
        raise UserError("--chat", "no --beam, since answers are sampled", flags.beam)
    if not isinstance(experiment.data, Conversations):
        raise UserError("--chat", "a run on Conversations", type(experiment.data).__name__)
    form = PicturedPrompts.of(experiment.data)
    search.end = form.end
    with open_run(flags, experiment, check_without_data) as loaded:
        tokens = {"tokens": jax.numpy.zeros((1, 1), jax.numpy.int32)}
        generator = generator_for(experiment.model, loaded.variables, tokens, experiment.data.length)
        if isinstance(generator, Recomputed):
            raise UserError("config.model", "a model with a cache, for --chat", type(experiment.model).__name__)
        read_inputs = functools.partial(model_inputs, experiment.model)
        session = Chat(form, generator, search, flags.length, read_inputs)  # type: ignore[arg-type]
        variables = jax.jit(generator.prepare)(loaded.variables, tokens)
        key = jax.random.key(flags.seed)
        conversation = Conversation()
        for prompt in read_questions(flags.image):
            if prompt is None:
                conversation = Conversation()
                continue
            turn_key = jax.random.fold_in(key, len(conversation.turns))
            try:
                conversation = session.ask(variables, conversation, prompt, turn_key)
            except UserError as error:
                print(f"txjax: {error}", file=sys.stderr)
                continue
            text = conversation.turns[-1].answer or ""
            record = {"step": loaded.step, **form.record(prompt), "texts": [text]}
            print(json.dumps(record) if flags.json else printable(text), flush=True)
    return 0


def check_flags(flags: argparse.Namespace) -> None:
    """Raises UserError for a flag that a chat has no use for."""
    texts = dict.fromkeys(("prompt", "prompts", "audio", "end", "adapters"), None)
    unused = texts | {"samples": 1, "times": False}
    for name, default in unused.items():
        value = getattr(flags, name, default)
        if value not in (default, []):
            raise UserError(f"--{name}", "no --chat, whose questions are on standard input", str(value))


def read_questions(image: str | None) -> Iterator[PicturedPrompt | None]:
    """The questions of standard input, and None where the turns before are to be forgotten.

    Args:
      image: the files that the first question is about, separated by commas.
    """
    from txjax.decoding.pictured_prompts import PicturedPrompt

    images = split_files(image or "")
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        print(HELP, file=sys.stderr)
    while True:
        if is_terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        command, _, rest = line.strip().partition(" ")
        if not line or command == "/quit":
            return
        if command == "/forget":
            yield None
        elif command == "/image":
            images = split_files(rest)
        elif command.startswith("/"):
            print(f"txjax: {UserError('--chat', 'a question or a command', command, hint=HELP)}", file=sys.stderr)
        elif command:
            yield PicturedPrompt(line.strip(), images)
            images = ()


def split_files(names: str) -> tuple[str, ...]:
    """The names of files that are separated by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
