"""The road of a published decoder: imported, tuned on completions, exported, and read by transformers again."""

import json

import jax
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.decoding import Sampling, generator_for, prompts_for, until
from txjax.experiment import with_default_eval_data
from txjax.train.check import check
from txjax.train.run.workdir import read_config
from txjax.train.state.restore import load_variables

from helpers import published_tokenizers as published
from helpers import runs, word_set

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim("Transfer", "a published decoder from import to export: files, stop tokens and greedy texts"),
]

TEMPLATE = "{% for message in messages %}{{ message.content }}<|turn|>{% endfor %}"
CONFIG = """
from txjax.data import Completions, TokenizerFolder
from txjax.experiment import Experiment
from txjax.interop import huggingface
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant

def get_config():
    model, _ = huggingface.load({folder!r})
    tokenizer = TokenizerFolder({folder!r})
    data = Completions("made_words", data_dir={data!r}, prompt="{{question}}", answer="{{right}}", tokenizer=tokenizer)
    optimizer = AdamW(schedule=Constant(warmup_steps=1), peak_lr=0.01)
    facts = dict(num_steps=40, batch_size=4, trackers=(), init_from={base!r})
    return Experiment(model=model, objective=NextToken(), data=data, optimizer=optimizer, **facts)
"""
LENGTH = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small Llama as it is published: two tokens end a text, one begins it, a template, and other files."""
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    at = tmp_path_factory.mktemp("published")
    sizes = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(num_attention_heads=2, num_key_value_heads=2, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(at)
    published.llama(at, TEMPLATE)
    (at / "README.md").write_text("A card.\n")
    (at / "extra").mkdir()
    (at / "extra" / "notes.txt").write_text("Notes.\n")
    return at


@pytest.fixture(scope="module")
def base(folder, tmp_path_factory):
    """The workdir of its import."""
    at = tmp_path_factory.mktemp("runs") / "base"
    assert main(["import", f"--from={folder}", f"--workdir={at}"]) == 0
    return at


@pytest.fixture(scope="module")
def tuned(folder, base, tmp_path_factory):
    """A run on completions that starts from it, and its export."""
    at = tmp_path_factory.mktemp("tuned")
    data = word_set.prepare(at / "tfds")
    (at / "tune.py").write_text(CONFIG.format(folder=str(folder), data=data, base=str(base)))
    code, _, err = runs.train_here(at / "tune.py", at / "run")
    assert code == 0, err
    assert main(["export", f"--workdir={at / 'run'}", f"--to={at / 'exported'}"]) == 0
    return at


def contents(folder):
    """The bytes of a folder's files besides weights and config.json, by path."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    others = [path for path in paths if path.suffix != ".safetensors" and path.name != "config.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in others}


def greedy(workdir, prompts, tmp_path, capsys):
    """The texts that `generate` writes."""
    (tmp_path / "prompts.txt").write_text("\n".join(prompts))
    capsys.readouterr()
    flags = [f"--prompts={tmp_path / 'prompts.txt'}", f"--length={LENGTH}", "--temperature=0", "--json"]
    assert main(["generate", f"--workdir={workdir}", *flags]) == 0
    return [json.loads(line)["texts"][0] for line in capsys.readouterr().out.splitlines()]


def reference(folder, prompts):
    """The new ids of transformers' greedy texts, with the end token if there is one, and the loaded classes."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    ids = []
    for prompt in prompts:
        inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        row = model.generate(**inputs, max_new_tokens=LENGTH, do_sample=False)[0]
        ids.append(row[inputs["input_ids"].shape[1] :].tolist())
    return ids, tokenizer, model


def test_every_file_but_weights_is_in_the_export(folder, base, tuned, tmp_path):
    assert main(["export", f"--workdir={base}", f"--to={tmp_path / 'x'}"]) == 0
    assert contents(tmp_path / "x") == contents(folder) == contents(tuned / "exported")
    assert "chat_template.jinja" in contents(folder) and "extra/notes.txt" in contents(folder)


@pytest.mark.parametrize("kind", ["imported", "tuned"])
def test_greedy_texts_are_those_of_transformers_to_their_end(folder, base, tuned, kind, tmp_path, capsys):
    workdir, theirs = {"imported": (base, folder), "tuned": (tuned / "run", tuned / "exported")}[kind]
    prompts = ["Who?", "One two", "The old man", *(record["question"] for record in word_set.records(2))]
    wanted, tokenizer, model = reference(theirs, prompts)
    assert model.generation_config.eos_token_id == [1, 2] and tokenizer.chat_template == TEMPLATE
    experiment = with_default_eval_data(read_config(workdir))
    form = prompts_for(experiment.data, "data")
    assert set(form.end) == {1, 2}
    variables, _ = load_variables(workdir, "last", check(experiment))
    for prompt, ids in zip(prompts, wanted, strict=True):
        inputs = form.inputs([prompt], "prompt")
        assert inputs["tokens"][0].tolist() == tokenizer(prompt)["input_ids"]
        generator = generator_for(experiment.model, variables, inputs, 128)
        search = Sampling(temperature=0, end=form.end)
        row = np.asarray(search(generator, variables, inputs, LENGTH, jax.random.key(0)))[0]
        text = until(row, form.end).tolist()
        assert row[: len(ids)].tolist() == ids and text == [i for i in ids if i not in form.end]
    texts = greedy(workdir, prompts, tmp_path, capsys)
    assert texts == [tokenizer.decode(ids, skip_special_tokens=True) for ids in wanted]
    if kind == "tuned":
        assert all(len(ids) < LENGTH and ids[-1] == 2 for ids in wanted)
