"""Answers to a harness's requests are those of its own `hf` backend on the exported folder."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

from txjax.eval import Harness
from txjax.interop import huggingface
from txjax.train.run.workdir import read_config

from helpers import runs
from helpers.evaluations import answering

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")
pytest.importorskip("accelerate", reason="pip install '.[parity]'")
pytest.importorskip("lm_eval", reason="pip install '.[harness]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim(
        "Evaluation",
        "the same as the harness's own `hf` backend on what is exported, to 1e-4: GPT-2, Llama, T5 (needs torch, "
        "transformers, accelerate)",
    ),
]

WINDOW = 24
TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "on and on"] * 4
LONG = " ".join(TEXTS)
PAIRS = (
    ("the cat sat", " on the mat"),
    ("the cat sat ", "on"),
    ("", "the dog"),
    ("<s>the cat", " sat"),
    (LONG, " and a dog"),
    ("a", " cat"),
)
VOCAB = 36
SIZES: dict[str, Any] = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def tokenizer(added: str | None) -> Any:
    """A byte-level tokenizer whose file adds special tokens to a text."""
    specials = ["<pad>", "<s>", "</s>"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator(TEXTS, tokenizers.trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=specials))
    assert made.get_vocab_size() == VOCAB
    if added is not None:
        special_tokens = [(name, i) for i, name in enumerate(specials)]
        made.post_processor = tokenizers.processors.TemplateProcessing(single=added, special_tokens=special_tokens)
    names = {"eos_token": "</s>", "pad_token": "<pad>"} | ({"bos_token": "<s>"} if added != "$A </s>" else {})
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def gpt2() -> tuple[Any, Any]:
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": WINDOW}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, **sizes)), tokenizer(None)


def llama() -> tuple[Any, Any]:
    sizes = {"hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(**SIZES, **sizes, max_position_embeddings=WINDOW)
    return transformers.LlamaForCausalLM(config), tokenizer("<s> $A")


def t5() -> tuple[Any, Any]:
    sizes = {"d_model": 24, "d_kv": 10, "d_ff": 31, "num_layers": 2, "num_heads": 3, "n_positions": WINDOW}
    config = transformers.T5Config(**SIZES, **sizes, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config), tokenizer("$A </s>")


@pytest.fixture(scope="module", params=[gpt2, llama, t5], ids=lambda make: make.__name__)
def models(request, tmp_path_factory) -> Iterator[tuple[Any, Any]]:
    """Our model of a workdir, and the backend on what is exported from it."""
    theirs, encoder = request.param()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            norm = "norm" in name or "ln_" in name
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.3 * drawn + float(norm and name.endswith("weight")))
    folder: Path = tmp_path_factory.mktemp(request.param.__name__)
    theirs.save_pretrained(folder / "theirs")
    encoder.save_pretrained(folder / "theirs")
    for words in (
        ("import", f"--from={folder / 'theirs'}", f"--workdir={folder / 'run'}"),
        ("export", f"--workdir={folder / 'run'}", f"--to={folder / 'exported'}"),
    ):
        code, _, err = runs.command(*words)
        assert code == 0, err
    from lm_eval.models.huggingface import HFLM

    settings = {"device": "cpu", "batch_size": 3, "max_length": WINDOW, "dtype": "float32"}
    backend = HFLM(pretrained=str(folder / "exported"), **settings)
    data = read_config(folder / "run", ()).data
    model, variables = huggingface.load(folder / "exported")
    evaluation = Harness(data=data, window=WINDOW, batch_size=4)
    with answering(model, jax.tree.map(jnp.asarray, variables), evaluation) as ours:
        yield ours, backend


def requests(*each: tuple[Any, ...]) -> list[Any]:
    return [types.SimpleNamespace(args=args, task_name="made") for args in each]


def test_likelihoods(models) -> None:
    ours, backend = models
    want = backend.loglikelihood(requests(*PAIRS), disable_tqdm=True)
    got = ours.loglikelihood(requests(*PAIRS))
    np.testing.assert_allclose([nats for nats, _ in got], [nats for nats, _ in want], atol=1e-4, rtol=0)
    assert [greedy for _, greedy in got] == [greedy for _, greedy in want]
    assert len({nats for nats, _ in want}) == len(PAIRS)


def test_likelihoods_of_whole_texts(models) -> None:
    ours, backend = models
    texts = requests((LONG,), ("a cat",), (f"<s>{TEXTS[0]}",))
    np.testing.assert_allclose(
        ours.loglikelihood_rolling(texts), backend.loglikelihood_rolling(texts, disable_tqdm=True), atol=1e-4, rtol=0
    )


def test_generated_texts(models) -> None:
    ours, backend = models
    options = {"until": [" the", "zz"], "max_gen_toks": 9, "do_sample": False}
    contexts = [("the cat sat", options), (LONG, options), ("a dog", options | {"until": []})]
    got = ours.generate_until(requests(*contexts))
    want = backend.generate_until(requests(*contexts), disable_tqdm=True)
    if backend.backend == "seq2seq":  # where the backend generates as many tokens more as the context has
        want = [text[: len(part)] for text, part in zip(want, got, strict=True)]
    assert got == want and any(got) and not any(" the" in text for text in got[:2])
