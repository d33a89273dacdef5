"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import TOKEN_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.decoder import decoder
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import (
    GatedMLP,
    Llama3Scaling,
    Normal,
    PostNorm,
    Rotary,
)

# width, depth, heads
GPT2: dict[str, tuple[int, int, int]] = {
    "124M": (768, 12, 12),
    "355M": (1024, 24, 16),
    "774M": (1280, 36, 20),
    "1.5B": (1600, 48, 25),
}
# All heads together are as wide as the model. Table 2.1 of the paper prints 24 heads of 128 channels for 1.3B, which
# would be 1.5B, and a width of 5,140 for 13B, whose 40 heads of 128 channels are 5,120.
GPT3: dict[str, tuple[int, int, int]] = {
    "125M": (768, 12, 12),
    "350M": (1024, 24, 16),
    "760M": (1536, 24, 16),
    "1.3B": (2048, 24, 16),
    "2.7B": (2560, 32, 32),
    "6.7B": (4096, 32, 32),
    "13B": (5120, 40, 40),
    "175B": (12288, 96, 96),
}
GPT_NEO: dict[str, tuple[int, int, int]] = {"125M": (768, 12, 12), "1.3B": (2048, 24, 16), "2.7B": (2560, 32, 20)}
# From 7B on they are Llama's; 7B and 13B are Llama 2's too. The others have GPT-3's widths and depths (Brown et al.
# 2020, table 2.1) and heads of 64 channels up to 350M, of 128 above.
LLAMA: dict[str, tuple[int, int, int]] = {
    "125M": (768, 12, 12),
    "350M": (1024, 24, 16),
    "1.3B": (2048, 24, 16),
    "3B": (2560, 32, 20),
    "7B": (4096, 32, 32),
    "13B": (5120, 40, 40),
    "33B": (6656, 60, 52),
    "65B": (8192, 80, 64),
}
LLAMA2: dict[str, tuple[int, int, int]] = {"7B": LLAMA["7B"], "13B": LLAMA["13B"], "70B": (8192, 80, 64)}
LLAMA3: dict[str, tuple[int, int, int]] = {"8B": (4096, 32, 32), "70B": (8192, 80, 64), "405B": (16384, 126, 128)}
# Hidden sizes of the MLP, where they are not 8/3 of the width.
LLAMA_HIDDEN = {"8B": 14336, "70B": 28672, "405B": 53248}


def gpt1(**fields: Any) -> Decoder:
    """GPT (Radford et al. 2018), 117M: post-norm, no norm after the last layer, 512 positions, 40,478 tokens."""
    style: dict[str, Any] = dict(max_length=512, block=PostNorm(), initial=Normal())
    return decoder.gpt(**dict(vocab=40478, width=768, depth=12, heads=12) | style | fields)


def gpt2(size: str = "124M", **fields: Any) -> Decoder:
    """GPT-2 (Radford et al. 2019): 1,024 positions, 50,257 tokens."""
    return decoder.gpt(**dict(vocab=50257) | dimensions_of(size, GPT2) | fields)


def gpt3(size: str = "125M", **fields: Any) -> Decoder:
    """GPT-3 (Brown et al. 2020, table 2.1) with dense layers: 2,048 positions, 50,257 tokens.

    Every second layer of the paper is banded; it doesn't print the width of the band, and the parameters are the same:
    `mixer=(Attention(), Attention(window=256))`.
    """
    return decoder.gpt(**dict(vocab=50257, max_length=2048) | dimensions_of(size, GPT3) | fields)


def gpt_neo(size: str = "125M", **fields: Any) -> Decoder:
    """GPT-Neo (Black et al. 2021): 2,048 positions, 50,257 tokens, a window of 256 in every second layer."""
    return decoder.gpt_neo(**dict(vocab=50257) | dimensions_of(size, GPT_NEO) | fields)


def llama(size: str = "7B", **fields: Any) -> Decoder:
    """Llama (Touvron et al. 2023): 32,000 tokens, a SwiGLU of 8/3 of the width rounded up to a multiple of 256."""
    return decoder.llama(**dict(vocab=32000) | dimensions_of(size, LLAMA) | fields)


def llama2(size: str = "7B", **fields: Any) -> Decoder:
    """Llama 2 (Touvron et al. 2023b): 32,000 tokens; 70B has 8 heads of keys and values, and an MLP of 28,672."""
    dimensions = dimensions_of(size, LLAMA2)
    grouped: dict[str, Any] = dict(kv_heads=8, mlp=_swiglu(size)) if size in LLAMA_HIDDEN else {}
    return decoder.llama(**dict(vocab=32000) | grouped | dimensions | fields)


def llama3(size: str = "8B", **fields: Any) -> Decoder:
    """Llama 3.1 (Grattafiori et al. 2024): 128,256 tokens, 8 heads of keys and values, scaled rotary frequencies.

    Llama 3 has `positions=Rotary(theta=500000.0)`.
    """
    dimensions = dimensions_of(size, LLAMA3)
    style: dict[str, Any] = dict(vocab=128256, kv_heads=8, mlp=_swiglu(size))
    return decoder.llama(
        **style | dict(positions=Rotary(theta=500000.0, scaling=Llama3Scaling())) | dimensions | fields
    )


def _swiglu(size: str) -> GatedMLP:
    return GatedMLP(hidden=LLAMA_HIDDEN[size], use_bias=False)


CARD = Card(
    title="decoder (GPT, Llama styles)",
    examples=(
        Example(
            model=Decoder(vocab=VOCAB, width=8, depth=2, heads=2),
            objectives=TOKEN_TASKS | {"NextToken": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]` (`types` and `languages` are ignored)",
            config="configs/text/gpt_tiny.py",
        ),
    ),
    presets=(
        Preset(
            build=gpt1,
            paper="Radford et al. 2018",
            remark="the head is the embedding's table",
            sizes={"": Size(116_534_784)},
        ),
        Preset(
            build=gpt2,
            paper="Radford et al. 2019",
            remark="tied head",
            sizes={
                "124M": Size(124_439_808, "117M in the paper"),
                "355M": Size(354_823_168),
                "774M": Size(774_030_080),
                "1.5B": Size(1_557_611_200),
            },
            reference="GPT2LMHeadModel",
        ),
        Preset(
            build=gpt3,
            paper="Brown et al. 2020, table 2.1",
            remark="tied head, 2,048 positions",
            sizes={
                "125M": Size(125_226_240),
                "350M": Size(355_871_744),
                "760M": Size(760_300_032),
                "1.3B": Size(1_315_723_264, "the table prints 24 heads"),
                "2.7B": Size(2_651_553_280),
                "6.7B": Size(6_658_404_352),
                "13B": Size(12_853_386_240, "the table prints a width of 5,140"),
                "175B": Size(174_604_259_328),
            },
            reference="GPT2LMHeadModel",
        ),
        Preset(
            build=gpt_neo,
            paper="Black et al. 2021",
            remark="tied head, no biases of queries, keys and values",
            sizes={
                "125M": Size(125_198_592),
                "1.3B": Size(1_315_575_808),
                "2.7B": Size(2_651_307_520),
            },
            reference="GPTNeoForCausalLM",
        ),
        Preset(
            build=llama,
            paper="Touvron et al. 2023",
            remark="head of its own",
            sizes={
                "125M": Size(134_105_856, "width and depth of GPT-3 125M"),
                "350M": Size(373_867_520, "GPT-3 350M"),
                "1.3B": Size(1_364_297_728, "GPT-3 1.3B, heads of 128 channels"),
                "3B": Size(2_701_560_320, "GPT-3 2.7B, heads of 128 channels"),
                "7B": Size(6_738_415_616, "Llama and Llama 2 7B"),
                "13B": Size(13_015_864_320, "Llama and Llama 2 13B"),
                "33B": Size(32_528_943_616),
                "65B": Size(65_285_660_672),
            },
            reference="LlamaForCausalLM",
        ),
        Preset(
            build=llama2,
            paper="Touvron et al. 2023b",
            remark="7B and 13B as Llama's",
            sizes={
                "70B": Size(68_976_648_192, "8 heads of keys and values, MLP of 28,672"),
            },
            reference="LlamaForCausalLM",
        ),
        Preset(
            build=llama3,
            paper="Grattafiori et al. 2024",
            remark="Llama 3 and 3.1: 128,256 tokens, 8 heads of keys and values",
            sizes={
                "8B": Size(8_030_261_248, "MLP of 14,336"),
                "70B": Size(70_553_706_496, "MLP of 28,672"),
                "405B": Size(405_853_388_800, "MLP of 53,248"),
            },
            reference="LlamaForCausalLM",
        ),
    ),
    systems=(
        System(
            name="GPT-2",
            config="configs/text/shakespeare_char.py",
            score="1.777 nats",
            presets=(gpt2,),
            equal_to="[GPT2LMHeadModel](tests/interop/test_parity.py)",
            compiled="1.5B on v5e:16x16",
        ),
        System(
            name="GPT-3",
            config="configs/text/gpt3.py",
            score="not run; trained as GPT-2, banded layers as GPT-Neo",
            presets=(gpt3,),
            equal_to="as GPT-2",
            compiled="175B on v5p:8x8x8",
        ),
        System(
            name="GPT-Neo",
            config="configs/text/gpt_neo_tiny.py",
            score="1.596 nats",
            presets=(gpt_neo,),
            equal_to="[GPTNeoForCausalLM](tests/interop/test_parity.py)",
            compiled="2.7B on v5e:16x16",
        ),
        System(
            name="Llama 1 to 3, Qwen2 and 3",
            config="configs/text/llama_tiny.py",
            score="1.451 nats",
            presets=(llama, llama2, llama3),
            equal_to="[LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM](tests/interop/test_parity.py)",
            compiled="7B on v5e:16x16, 65B on v5p:4x4x4, 405B on v5p:8x8x8",
        ),
        System(
            name="Linear attention, Performer",
            config="configs/text/linear_attention_tiny.py",
            score="1.795 nats",
            presets=(gpt2,),
            equal_to="[the quadratic form in numpy](tests/nn/test_linear_attention.py)",
            compiled="GPT-2 1.5B with each on v5e:16x16",
        ),
    ),
)
