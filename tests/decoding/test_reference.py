"""Searches equal those of transformers: the filters of sampling, and beams on imported weights."""

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import Cached, NormalizedBeam, Sampling
from txjax.decoding.sampling import tokens_of
from txjax.interop import huggingface

from helpers.arrays import numbers

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim(
        "Generation",
        "filters of sampling and beams equal the reference's (needs torch and transformers)",
    ),
]

V, LENGTH = 37, 12
PROMPT = np.random.default_rng(1).integers(0, V, (3, 4)).astype(np.int32)
STOPS = {"full": (True, 5), "estimate": (False, 3), "bound": ("never", 2)}  # the reference's name, and a size


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.7},
        {"min_p": 0.1},
        {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.3},
        {"temperature": 1.9, "top_p": 0.9, "repetition_penalty": 0.6},
    ],
)
def test_filters_are_the_references(options: dict[str, float]) -> None:
    """In its order."""
    processors, given = transformers.LogitsProcessorList(), torch.tensor(PROMPT, dtype=torch.long)
    for name, kind in (
        ("repetition_penalty", transformers.RepetitionPenaltyLogitsProcessor),
        ("temperature", transformers.TemperatureLogitsWarper),
        ("top_k", transformers.TopKLogitsWarper),
        ("top_p", transformers.TopPLogitsWarper),
        ("min_p", transformers.MinPLogitsWarper),
    ):
        if name in options:
            processors.append(kind(options[name]))
    logits, sampling = 3 * numbers(3, V), Sampling(**options)
    want = processors(given, torch.tensor(logits)).numpy()
    got = sampling.filter(sampling.penalise(jnp.asarray(logits), tokens_of({"tokens": PROMPT}, V)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert "min_p" not in options or np.isinf(want).any()


def gpt2() -> Any:
    sizes = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, initializer_range=0.4))


# The reference's model, its inputs and ours.
CASES: dict[str, Any] = {
    "gpt2": (gpt2, {"input_ids": PROMPT}, {"tokens": PROMPT}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The reference's `generate`, our model with its weights, our inputs, and a token that ends some texts early."""
    make, theirs, ours = CASES[request.param]
    torch.manual_seed(0)
    reference = make().eval()
    folder: Path = tmp_path_factory.mktemp(request.param)
    reference.save_pretrained(folder)
    given = {name: torch.tensor(x, dtype=torch.long) for name, x in theirs.items()}
    begun = ours["tokens"].shape[1]

    def generate(**options: Any) -> Any:
        with torch.no_grad():
            return reference.generate(
                **given, max_new_tokens=LENGTH, return_dict_in_generate=True, output_scores=True, **options
            )

    greedy = generate(do_sample=False, eos_token_id=None, pad_token_id=0).sequences[0, begun:].tolist()
    return generate, huggingface.load(folder), ours, greedy[LENGTH // 2]


@pytest.mark.parametrize("stop", STOPS)
def test_beams_are_the_references(case: Any, stop: str) -> None:
    generate, (model, variables), inputs, end = case
    begun, lengths, (early_stopping, size) = inputs["tokens"].shape[1], set(), STOPS[stop]

    @jax.jit
    def search(variables: Any, inputs: Any, alpha: Any) -> Any:
        return NormalizedBeam(size, alpha, end=(end,), stop=stop).hypotheses(Cached(model), variables, inputs, LENGTH)

    for alpha in (0.0, 1.0, 2.0):
        want = generate(
            num_beams=size,
            num_return_sequences=size,
            length_penalty=alpha,
            early_stopping=early_stopping,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=end,
        )
        found = jax.device_get(search(variables, inputs, alpha))
        texts = want.sequences[:, begun:].numpy().reshape(len(found.tokens), size, -1)
        texts = np.pad(texts, ((0, 0), (0, 0), (0, LENGTH - texts.shape[-1])), constant_values=end)
        np.testing.assert_array_equal(found.tokens, texts)
        np.testing.assert_allclose(found.scores.reshape(-1), want.sequences_scores.numpy(), rtol=1e-4, atol=1e-4)
        lengths |= {len(list(itertools.takewhile(lambda x: x != end, row))) for row in texts.reshape(-1, LENGTH)}
    assert min(lengths) < LENGTH // 2 and len(lengths) > 2  # some end early
