"""txjax generate, and samples during training, for an encoder-decoder."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from txjax import tree
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.data import Characters, Pairs
from txjax.decoding import Sampling
from txjax.eval import Samples
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Untied
from txjax.objectives import NextToken
from txjax.train.run.workdir import write_manifest

from helpers import sentence_set
from helpers.arrays import forward, variables
from helpers.evaluations import measure

pytestmark = pytest.mark.claim("Generation", "`txjax generate` of an encoder-decoder from its workdir")

TOKENIZER = Characters("abcdefghijklmnopqrstuvwxyzü :", specials=("[START]", "[END]"))
LENGTH = 8
MODEL = EncoderDecoder(vocab=31, width=8, depth=1, heads=2, head=Untied())
ONE = np.zeros((1, 2), np.int32)
PARAMS = jax.tree.map(lambda x: 8 * (x - 0.1), variables(MODEL, ONE, ONE))  # texts that differ


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    texts = {"source_text": "say: {first}", "target_text": "{second}", "tokenizer": TOKENIZER}
    data = Pairs("made_sentences", "train", data_dir, **texts, source_length=24, length=16)
    return Experiment(model=MODEL, objective=NextToken(), data=data, trackers=())


@pytest.fixture(scope="module")
def workdir(run: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("run")
    store = Store(at)
    weights = {"params": jax.tree.map(jax.numpy.asarray, PARAMS["params"]), "frozen": {}, "model_state": {}}
    store.save_parts(0, {"weights": weights}, {"metrics": {}})
    store.wait()
    write_manifest(at, {}, {"parameters": 0, "flops_per_step": 0})
    (at / "config.json").write_text(json.dumps(tree.to_json(run)))
    return at


def ask(capsys: Any, *words: Any) -> tuple[int, str, str]:
    code = main(["generate", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def greedy(prompt: str) -> str:
    """The text that the whole forward pass gives."""
    apply, (start, end) = forward(MODEL), map(TOKENIZER.special, ("[START]", "[END]"))
    source, text = np.append(TOKENIZER.encode(f"say: {prompt}"), end)[None].astype(np.int32), [start]
    for _ in range(LENGTH):
        whole = np.zeros((1, 1 + LENGTH), np.int32)
        whole[0, : len(text)] = text
        text.append(int(apply(PARAMS, whole, source)[0, len(text) - 1].argmax()))
    text = text[1:]
    return TOKENIZER.decode(text[: text.index(end)] if end in text else text)


@pytest.mark.slow
def test_sources_of_a_file_give_the_texts_of_each_alone(run, workdir, tmp_path, capsys) -> None:
    prompts = "a dog", "the red cat"
    (tmp_path / "prompts.txt").write_text("\n\n".join(prompts))
    flags = f"--workdir={workdir}", f"--length={LENGTH}", "--temperature=0"
    code, out, err = ask(capsys, *flags, f"--prompts={tmp_path}/prompts.txt", "--json", "--samples=2")
    assert code == 0, err
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["prompt"] for record in records] == list(prompts)
    (text, same), (other, _) = (record["texts"] for record in records)
    assert text == same == greedy(prompts[0]) != other
    assert ask(capsys, *flags, f"--prompt={prompts[0]}")[:2] == (0, f"{prompts[0]}\n{text}\n")  # as a stream
    samples = Samples(data=run.data, prompts=prompts[:1], texts=1, length=LENGTH, search=Sampling(temperature=0))
    measure(MODEL, NextToken(), samples, PARAMS, folder=tmp_path)
    assert (tmp_path / "samples" / "x" / "7.txt").read_text().endswith(f"{prompts[0]}\n{text}\n")


def test_the_best_texts_of_a_beam(workdir, capsys) -> None:
    flags = f"--workdir={workdir}", f"--length={LENGTH}", "--beam=3", "--samples=2", "--json", "--prompt=a dog"
    code, out, err = ask(capsys, *flags)
    record = json.loads(out)
    assert (code, len(set(record["texts"]))) == (0, 2), err
    assert record["scores"] == sorted(record["scores"], reverse=True)


def test_bad_values_are_one_line(workdir, capsys) -> None:
    for flags, said in (
        ((), "--prompt: expected at least one token, got ''; an encoder-decoder reads a source"),
        (("--prompt=",), "--prompt: expected at least one token, got ''"),
        (("--prompt=a", "--end=ab"), "--end: expected a special token's name or a text of one token, got 'ab'"),
    ):
        code, out, err = ask(capsys, f"--workdir={workdir}", *flags)
        assert (code, out, len(err.splitlines())) == (2, "", 1) and said in err, err
