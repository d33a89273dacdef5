"""How many numbers each method trains in published models, by the formulas of its paper (the task's head apart)."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

from txjax.models.text.bert.card import bert, roberta
from txjax.models.text.decoder.card import gpt2, gpt3
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.text.encoder_decoder.card import t5_v1_1
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.vit import ViT
from txjax.models.vision.vit.card import vit
from txjax.nn import Pooled, Pooler
from txjax.nn.adapters import (
    IA3,
    Adapter,
    BitFit,
    Bottleneck,
    DeepPrompt,
    DoRA,
    LoRA,
    MLPPrefix,
    PixelPrompt,
    Prefix,
    Prompt,
)
from txjax.optim import train_adapter
from txjax.optim.groups import find, of_adapter
from txjax.types import flat_paths

from helpers.arrays import shapes

TOKENS = jnp.zeros((1, 2), jnp.int32)


def houlsby(layers: int, d: int, m: int) -> int:
    return 2 * layers * (2 * d * m + d + m)


# The numbers stand in the papers, in peft's counts, or follow from L layers of width d.
ADAPTED: list[tuple[Callable[[], Any], Adapter, int]] = [
    (lambda: gpt2("124M"), LoRA(rank=4), 147_456),
    (lambda: gpt2("355M"), LoRA(rank=4), 393_216),
    (lambda: gpt2("774M"), LoRA(rank=8), 1_474_560),
    (lambda: gpt2("1.5B"), LoRA(rank=4), 1_228_800),
    (lambda: gpt3("175B"), LoRA(rank=1), 4_718_592),
    (lambda: gpt3("175B"), LoRA(rank=8), 37_748_736),
    (lambda: roberta("base"), LoRA(rank=8), 294_912),
    (lambda: roberta("large"), LoRA(rank=8), 786_432),
    (lambda: gpt2("124M"), DoRA(rank=4), 147_456 + 12 * 2 * 768),
    (lambda: bert("base"), Bottleneck(size=64), houlsby(12, 768, 64)),
    (lambda: bert("large"), Bottleneck(size=256), 25_227_264),
    (lambda: bert("base"), Bottleneck(size=48, paths=".*mlp/down"), 894_528),
    (lambda: bert("large"), Bottleneck(size=64, paths=".*mlp/down"), 3_171_840),
    (lambda: gpt2("124M"), IA3(), 12 * (768 + 768 + 3072)),
    (lambda: gpt2("355M"), Prefix(length=5), 245_760),
    (lambda: gpt2("355M"), MLPPrefix(length=5, width=1024), 25_744_896),
    (lambda: gpt2("355M"), MLPPrefix(length=10, width=1024), 25_750_016),
    (lambda: gpt2("774M"), Prefix(length=5), 460_800),
    (lambda: vit("B/16"), Prompt(length=50), 38_400),
    (lambda: vit("B/16"), DeepPrompt(length=50), 460_800),
    (lambda: t5_v1_1("small"), Prompt(length=100, paths="encoder/layers"), 51_200),
    (lambda: t5_v1_1("xxl"), Prompt(length=100, paths="encoder/layers"), 409_600),
]


@pytest.mark.parametrize(("model", "adapter", "wanted"), ADAPTED, ids=[str(count) for _, _, count in ADAPTED])
def test_adapters_have_their_papers_counts(model: Callable[[], Any], adapter: Adapter, wanted: int) -> None:
    made = model().clone(adapter=adapter)
    assert trained(drawn(made), adapter) == wanted


@pytest.mark.parametrize(
    ("size", "every", "layers", "two"), [("base", 102_912, 101_376, 46_080), ("large", 272_384, 270_336, 122_880)]
)
def test_bitfit_has_its_papers_counts(size: str, every: int, layers: int, two: int) -> None:
    """Ben-Zaken et al. 2022: 0.094% and 0.081% of BERT's weights, its pooler's among them; or b_q and b_m2 alone."""
    made = bert(size, head=Pooled(Pooler()), adapter=BitFit())
    params = flat_paths(shapes(made, TOKENS)["params"])
    counts = [trained(params, BitFit(paths)) for paths in (".*", "layers/.*", ".*(attention/query|mlp/up)")]
    assert counts == [every, layers, two]


def test_pixel_prompt_has_its_papers_count() -> None:
    """2 C p (H + W - 2p) (Bahng et al. 2022), whose 30 pixels of an image of 224 x 224 are 69,840 numbers."""
    model = ConvNet(width=1, depth=1, stages=1, adapter=PixelPrompt())
    assert trained(flat_paths(shapes(model, jnp.zeros((1, 224, 224, 3)))["params"]), PixelPrompt()) == 69_840


def test_norms_are_trained_beside_bottlenecks() -> None:
    """Houlsby et al. 2019: 4 d L numbers more."""
    made = bert("base").clone(adapter=Bottleneck(size=64))
    assert trained(drawn(made), made.adapter, "layers/.*norm.*") == 2_379_264 + 36_864


def drawn(model: Any) -> dict[str, Any]:
    """The shapes of the parameters by path."""
    inputs = {"image": jnp.zeros((1, 224, 224, 3))} if isinstance(model, ViT) else {"tokens": TOKENS}
    inputs |= {"source_tokens": TOKENS} if isinstance(model, EncoderDecoder) else {}
    return flat_paths(shapes(model, **inputs)["params"])


def trained(params: dict[str, Any], adapter: Adapter, *patterns: str) -> int:
    groups = of_adapter(train_adapter(*patterns), adapter)
    return sum(math.prod(x.shape) for path, x in params.items() if find(groups, path).trainable)
