"""What `txjax generate` writes: the texts of a run after prompts, for the command and for Python."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from txjax import backend
from txjax.cli.adapter_runs import sides
from txjax.cli.fused_language import fusion_of, open_language
from txjax.cli.generation_flags import prompts_of, search_of, token
from txjax.cli.load_run import OpenRun
from txjax.decoding import Beam, generator_for, prompts_for, until
from txjax.objectives import model_inputs

if TYPE_CHECKING:
    from txjax.cli.fused_language import LanguageRun
    from txjax.experiment import Experiment


class Task(NamedTuple):
    """Texts to write.

    Attributes:
      form: how the run's data read prompts.
      prompts: texts, recordings or questions about images.
      inputs: of the model, [prompts x copies ...].
      search: the search for the next tokens.
      language: the language model whose scores are added. If None, there is none.
    """

    form: Any
    prompts: Sequence[Any]
    inputs: dict[str, Any]
    search: Any
    language: LanguageRun | None

    def text(self, prompt: Any, row: Any) -> str:
        """The text of tokens [N] after a prompt."""
        return self.form.text(prompt, until(np.asarray(row), self.search.end))


class Texts(NamedTuple):
    """The texts of a prompt.

    Attributes:
      workdir, step: of the run.
      prompt: what they follow.
      texts: without the prompt.
      scores: of a beam's texts; {} of sampled ones.
    """

    workdir: Path
    step: int
    prompt: Any
    texts: list[str]
    scores: dict[str, list[float]]


def task_of(flags: argparse.Namespace, experiment: Experiment, prompts: Sequence[Any] | None = None) -> Task:
    """The task that the flags describe. `prompts`: in the place of the flags'.

    Raises:
      UserError: the flags contradict each other or the run.
    """
    search = search_of(flags)
    fusion = fusion_of(flags)
    form = prompts_for(experiment.data, "--workdir")
    prompts = prompts or prompts_of(flags, form)
    copies = 1 if isinstance(search, Beam) else flags.samples
    batch = {name: np.repeat(x, copies, axis=0) for name, x in form.inputs(prompts, form.flag).items()}
    inputs = model_inputs(experiment.model, batch)
    search = search.for_run("--ctc_weight", experiment.model, experiment.objective)
    search.end = form.end if flags.end is None else tuple(token(form.tokenizer, name) for name in flags.end)
    return Task(form, prompts, inputs, search, open_language(flags, fusion, form, search.end))


def write_texts(task: Task, flags: argparse.Namespace, experiment: Experiment, opened: OpenRun) -> Iterator[Texts]:
    """The texts of each prompt, of the run and of the runs side by side with it."""
    generator = generator_for(experiment.model, opened.variables, task.inputs, window_of(experiment))
    of_language = None
    if task.language is not None:
        of_language = task.language.variables(NamedSharding(opened.layout.batch.mesh, PartitionSpec()))
        generator = task.language.fuse(generator, of_language, len(task.prompts))
    program = backend.jit(writing_program(generator, task.search, flags.length))
    for side in sides(flags, experiment, opened):
        variables = side.variables if task.language is None else (side.variables, of_language)
        answers = jax.device_get(program(variables, task.inputs, jax.random.key(flags.seed)))
        for i, prompt in enumerate(task.prompts):
            scores: dict[str, list[float]] = {}
            if isinstance(task.search, Beam):
                tokens = answers.tokens[i][answers.exist[i]]
                scores = {"scores": answers.scores[i][answers.exist[i]][: flags.samples].tolist()}
            else:
                tokens = answers.reshape(len(task.prompts), flags.samples, -1)[i]
            texts = [task.text(prompt, row) for row in tokens[: flags.samples]]
            yield Texts(side.workdir, side.step, prompt, texts, scores)


def window_of(experiment: Experiment) -> int:
    """The number of tokens that the run was trained on at once."""
    (window,) = experiment.data.spec()["tokens"].shape
    return int(window)


def writing_program(generator: Any, search: Any, length: int) -> Callable[..., Any]:
    """What a search finds with a generator, as a function of variables, inputs and a key."""
    if isinstance(search, Beam):
        return lambda variables, inputs, key: search.hypotheses(generator, variables, inputs, length)
    return lambda variables, inputs, key: search(generator, variables, inputs, length, key)
