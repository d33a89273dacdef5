"""Span corruption: source and target restore the text, sizes and distribution are those of the paper."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import config
from txjax.data import PackedText, TextWindows
from txjax.objectives import SpanCorruption
from txjax.objectives.span_corruption import composition
from txjax.train.check import check
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "span corruption restores the text; all ways to cut it are equally likely; its tokens are special ones",
)

L = 40
FIRST, END = 299, 257
OBJECTIVE = SpanCorruption(sentinel_id=FIRST, end_id=END, start_id=256, rate=0.3, mean_span=2.0)
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 256, L), jnp.int32)


@pytest.mark.parametrize("count", [L, 7, 3, 2])
def test_source_and_target_restore_the_text(count: int) -> None:
    corrupt = jax.jit(OBJECTIVE.corrupt)
    for seed in range(20):
        parts = corrupt(jax.random.key(seed), TOKENS, (jnp.arange(L) < count).astype(jnp.float32))
        source, given, target, real = (np.asarray(part) for part in parts)
        source, target = source[given], target[real]
        assert target[-1] == source[-1] == END and given[: len(source)].all() and real[: len(target)].all()
        spans: dict[int, list[int]] = {}
        for token in target[:-1]:
            if token > END:
                spans[number := int(token)] = []
            else:
                spans[number].append(int(token))
        assert list(spans) == list(range(FIRST, FIRST - len(spans), -1)) and all(spans.values())
        text = [each for token in source[:-1] for each in (spans[int(token)] if token > END else [int(token)])]
        np.testing.assert_array_equal(text, TOKENS[:count])
        cut, runs = OBJECTIVE.counts(L)
        assert len(target) - 1 - len(spans) == cut[count] and len(spans) == runs[count]
        assert cut[count] == min(max(round(0.3 * count), 1), count - 1)


def test_an_empty_example_has_no_target() -> None:
    _, given, _, real = OBJECTIVE.corrupt(jax.random.key(0), TOKENS, jnp.zeros(L))
    assert not given.any() and not real.any()


def test_lengths_are_those_of_t5() -> None:
    """568 tokens become 512 and 114, the lengths of the authors' pretraining."""
    assert SpanCorruption(sentinel_id=32099).lengths(568) == (512, 114)
    longest = SpanCorruption(sentinel_id=FIRST, rate=0.5, mean_span=1.0)
    batch = {"tokens": TOKENS[None], "weights": jnp.ones((1, L))}
    shapes = {name: x.shape for name, x in longest.inputs(None, batch).items()}
    source, _, target, _ = longest.corrupt(jax.random.key(0), TOKENS, jnp.ones(L))
    assert shapes["source_tokens"] == (1, *source.shape) and shapes["tokens"] == (1, *target.shape)


def test_all_ways_to_cut_are_equally_likely() -> None:
    """6 ways of 5 items in 3 parts, 3,000 draws: each within four standard deviations."""
    draw = jax.vmap(lambda key: composition(key, jnp.int32(5), jnp.int32(3), 8, 4))
    found = collections.Counter(map(tuple, np.asarray(jax.jit(draw)(jax.random.split(jax.random.key(1), 3000)))))
    assert len(found) == 6 and all(sum(parts) == 5 for parts in found)
    assert all(abs(count - 500) < 4 * (3000 * 5 / 36) ** 0.5 for count in found.values())


def test_too_few_sentinels() -> None:
    experiment = config.load("configs/text/span_corruption_tiny.py", [])
    for flag, message in (
        ("3", "at least 5: 128 tokens have 6 spans"),
        ("278", r"below config\.model\.vocab = 278, got 278"),
    ):
        experiment.objective.sentinel_id = int(flag)
        with pytest.raises(UserError, match=rf"^config\.objective\.sentinel_id: expected {message}"):
            check(experiment)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("objective.sentinel_id=260", r"sentinel_id: expected 6 special tokens from it downwards, .* got .255"),
        ("data.tokenizer=Bytes()", r"sentinel_id: expected 6 special .*277, which the tokenizer of .* doesn't have"),
        ("objective.end_id=97", r"end_id: expected a special token, which text is never encoded to, got .97"),
        ("objective.start_id=10", r"start_id: expected a special token"),
        ("objective.end_id=275", r"end_id: expected none of the 6 sentinels, 272 to 277, got 275"),
    ],
)
def test_tokens_that_are_not_special(flag: str, message: str) -> None:
    experiment = config.load("configs/text/span_corruption_tiny.py", [f"--config.{flag}"])
    with pytest.raises(UserError, match=rf"^config\.objective\.{message}"):
        check(experiment)


@pytest.mark.parametrize("kind", [PackedText, TextWindows])
def test_rows_of_several_documents_are_refused(kind: type) -> None:
    experiment = config.load("configs/text/span_corruption_tiny.py", [])
    experiment.data = kind(name="txjax_python_text", length=128, tokenizer=experiment.data.tokenizer)
    message = rf"^config\.data: expected rows of one text each, without segments, got .{kind.__name__}"
    with pytest.raises(UserError, match=message):
        check(experiment)
