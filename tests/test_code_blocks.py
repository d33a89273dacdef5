"""Every block of code of every page: Python runs, commands exist with their flags and their config's fields."""

import contextlib
import dataclasses
import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import txjax
from txjax import config as configs
from txjax.cli import dispatch
from txjax.cli.parser import Parser, collect_parsers

import public_names

pytestmark = pytest.mark.claim(
    "Documentation", "every block of Python of the pages runs; every command and flag exists"
)

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THE_REST = re.compile(r",\s*\.\.\.(?=,?\s*\))|(?<=\()\s*\.\.\.,")  # `...` beside keywords stands for other arguments
TRAINED = ("README.md", "python.md")  # their blocks train; two updates are enough to run them
# Other tests run these blocks, with their files.
ELSEWHERE = {
    "own_components.md": "tests/test_own_components.py",
    "fine_tuning.md": "tests/test_guides.py",
    "coming_from_trainer.md": "tests/test_guides.py",
}
SWEPT = "txjax.fit_sweep"  # six runs and a law, in small in tests/python/test_python_runs.py
# What blocks need besides the public names: what the text around them names, in small.
TEXTS = """
from txjax.data import NextTokenWindows
def text(split): return NextTokenWindows("txjax_python_text", split=split, length=16)
"""
EXPERIMENT = """
import functools
from txjax.experiment import Experiment as Whole
Experiment = functools.partial(Whole, data=NextTokenWindows("txjax_python_text"), objective=NextToken())
"""
DECODER = """
import functools
Decoder = functools.partial(Decoder, vocab=256, width=8, depth=1, heads=1)
"""
BEFORE = {
    "adapters.md": EXPERIMENT + "from txjax.transfer.words import Words\ntokenizer = Bytes()",
    "evaluation.md": TEXTS
    + """
from txjax.data.text.prompted_choices import PromptedChoices
from txjax.eval import GLUE
from txjax.eval.evaluation import add, mean_of
from txjax.eval.evaluator import Context, Evaluate
from txjax.eval.features.zero_shot import ZeroShot
from txjax.eval.text.answer_rules import DomainPMI
held_out = Images("mnist", split="test")
def pairs(split): return LabelledText("glue/mrpc", split=split, text=("a", "b"))
""",
    "generation.md": TEXTS,
    "inspect.md": """
model, objective = Decoder(vocab=256, width=8, depth=1, heads=1), NextToken()
batch = {"tokens": np.zeros((1, 4), np.int32)}
variables = model.init(jax.random.key(0), **objective.inputs(model, batch))
""",
    "interop.md": """
from txjax.interop import huggingface
from txjax.models.text.decoder.card import gpt2
ids = np.zeros((1, 4), np.int32)
mask = np.ones_like(ids)
small = gpt2(vocab=256, width=8, depth=1, heads=1)
huggingface.save(small, small.init(jax.random.key(0), ids), "path/to/gpt2")
""",
    "kernels.md": DECODER
    + """
from txjax.nn.kernels.context_parallel import RingAttention
query = key = value = jnp.zeros((8, 1024, 16, 64), jnp.bfloat16)
""",
    "logging.md": """
from pathlib import Path
Path("runs/gpt").mkdir(parents=True)
Path("runs/gpt/metrics.jsonl").write_text('{"step": 1, "time": 0.0, "train/loss": 2.5}\\n')
""",
    "models.md": EXPERIMENT
    + """
from txjax.models.vision.mask_git.card import mask_git
from txjax.nn import GroupNorm
Bert = functools.partial(Bert, vocab=256, width=8, heads=1)
MaskedToken = functools.partial(MaskedToken, vocab=256)
from txjax.objectives.masked_visual_tokens import MaskedVisualTokens
from txjax.objectives.vq_reconstruction import VQReconstruction
""",
    "parallelism.md": DECODER + "from txjax.nn.layers.experts import Capacity",
    "population.md": "experiments = workdirs = []",
    "processes.md": "def choose(): return 1",
    "scaling.md": "from pathlib import Path",
    "transfer.md": EXPERIMENT,
}


def blocks(page: Path, kind: str) -> list[str]:
    return [code for language, code in BLOCK.findall(page.read_text()) if language == kind and SWEPT not in code]


def ends_early(fit: Any) -> Any:
    """`txjax.fit` that ends after two updates, each a row of the log."""

    def fit_two(experiment: Any, workdir: str, **options: Any) -> Any:
        loaded = txjax.load_config(experiment) if isinstance(experiment, str) else experiment
        return fit(dataclasses.replace(loaded, log_every_steps=1), workdir, until=2, **options)

    return fit_two


PYTHON_PAGES = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in (*TRAINED, "data.md") else [])
    for page in PAGES
    if blocks(page, "python") and page.name not in ELSEWHERE
]


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """The blocks of a page, one after the other, with all public names imported."""
    monkeypatch.chdir(tmp_path)
    if page.name == "data.md":
        monkeypatch.setenv("TFDS_DATA_DIR", str(request.getfixturevalue("tfds_dir")))
    if page.name in TRAINED:
        rows = [{"review": f"{('dull', 'fine')[i % 2]} film {i}", "stars": 1 + 4 * (i % 2)} for i in range(200)]
        pd.DataFrame(rows).to_csv("reviews.csv", index=False)
        monkeypatch.setattr(txjax, "fit", ends_early(txjax.fit))
    namespace: dict[str, Any] = {"dataclasses": dataclasses, "json": json, "jax": jax, "jnp": jnp, "np": np}
    for names in public_names.public_names().values():
        namespace |= {name.name: name.value for name in names if name.module != "txjax.sweep"}
    exec(BEFORE.get(page.name, ""), namespace)
    for code in blocks(page, "python"):
        exec(compile(THE_REST.sub("", code), page.name, "exec"), namespace)


def parser_of(words: list[str]) -> tuple[Parser, list[str]]:
    """The parser of a command, and the words after its name."""
    package, rest = "txjax.commands", words
    while True:
        module = importlib.import_module(dispatch.module_of(package, rest[0]))
        rest = rest[1:]
        if not hasattr(module, "__path__"):
            break
        package = module.__name__
    with collect_parsers() as parsers, contextlib.suppress(SystemExit):
        module.run(["--help"])
    assert parsers
    return parsers[0], rest


def commands(page: Path) -> list[str]:
    """The lines of the page's blocks that begin with `txjax`; a quote may go over several lines."""
    lines = []
    for code in blocks(page, "sh"):
        joined = re.sub(r"='[^']*'", lambda match: match[0].replace("\n", " "), code.replace("\\\n", " "))
        lines += [line for line in joined.splitlines() if line.startswith("txjax ")]
    return lines


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_exist(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command has its flags; a config that is in the repository has the fields that are set."""
    monkeypatch.chdir(ROOT)
    unknown = []
    for line in commands(page):
        parser, words = parser_of(shlex.split(line, comments=True)[1:])
        flags = [word.partition("=")[0] for word in words if word.startswith("--") and word[:9] != "--config."]
        unknown += [f"{line}: {flag}" for flag in flags if flag not in parser._option_string_actions]
        source = next((word.partition("=")[2] for word in words if word.startswith("--config=")), "")
        if source.startswith("txjax:") or Path(source.partition(":")[0]).is_file():
            configs.load(source, [word for word in words if word.startswith("--config.")])
    assert unknown == []
