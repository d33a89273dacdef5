"""Parameter counts of published sizes, on shapes alone."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from txjax.models import MAE, Bert, NextSentence, ViT, gpt, llama
from txjax.nn import Learned

from made import shapes

TOKENS = jax.ShapeDtypeStruct((1, 8), jnp.int32)
IMAGE = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)


def count(model: Any, given: jax.ShapeDtypeStruct) -> int:
    tree = shapes(model, jnp.zeros(given.shape, given.dtype))["params"]
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("model", "given", "parameters"),
    [
        (gpt(vocab=50257, width=768, depth=12, heads=12), TOKENS, 124_439_808),  # GPT-2
        (gpt(vocab=50257, width=1600, depth=48, heads=25), TOKENS, 1_557_611_200),  # GPT-2 XL
        (llama(vocab=32000, width=4096, depth=32, heads=32), TOKENS, 6_738_415_616),  # Llama 7B
        (Bert(vocab=30522, width=768, depth=12, heads=12, next_sentence=NextSentence()), TOKENS, 110_106_428),
        (
            ViT(patch=16, classes=1000, width=768, depth=12, heads=12, positions=Learned(max_length=197)),
            IMAGE,
            86_567_656,
        ),
    ],
    ids=["gpt2", "gpt2-xl", "llama-7b", "bert-base", "vit-b16"],
)
def test_published_counts(model: Any, given: jax.ShapeDtypeStruct, parameters: int) -> None:
    assert count(model, given) == parameters


def test_llama_3_8b() -> None:
    model = llama(vocab=128256, width=4096, depth=32, heads=32, kv_heads=8)
    model.mlp.hidden = 14336
    assert count(model, TOKENS) == 8_030_261_248


def test_mae_base() -> None:
    """ViT-B without a classifier and with fixed positions, and the decoder of 8 layers and width 512."""
    block = lambda d: 12 * d * d + 13 * d  # noqa: E731  four d x d projections, two of 4d x d, biases, two norms
    encoder = 12 * block(768) + (768 + 1) * 768 + 768 + 2 * 768  # patches, class token, last norm
    decoder = 8 * block(512) + (768 + 1) * 512 + 512 + 2 * 512 + (512 + 1) * 768
    assert count(MAE(patch=16, width=768, depth=12, heads=12), IMAGE) == encoder + decoder
