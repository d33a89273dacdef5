"""Parameter counts of published sizes, on shapes alone."""

import copy
import importlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import txjax.models
from txjax.models.text.decoder import Decoder
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Sinusoidal
from txjax.types import UserError

from helpers.arrays import shapes
from selection import describe_tree, per_family

pytestmark = pytest.mark.claim("Models and objectives", "parameter counts of the published sizes")

TOKENS = jax.ShapeDtypeStruct((1, 8), jnp.int32)
IMAGE = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)


def sizes_of(modality: str) -> SimpleNamespace:
    """All names of the files of published sizes of one modality's families."""
    folder = Path(txjax.models.__file__).parent / modality
    modules = [
        importlib.import_module(f"txjax.models.{modality}.{path.parent.name}.presets")
        for path in folder.glob("*/presets.py")
    ]
    return SimpleNamespace(**{name: value for module in modules for name, value in vars(module).items()})


text, vision = sizes_of("text"), sizes_of("vision")


def count(model: Any, *given: jax.ShapeDtypeStruct, **named: jax.ShapeDtypeStruct) -> int:
    args, kwargs = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), (given, named))
    tree = shapes(model, *args, **kwargs)["params"]
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


# Parameters as the reference implementation counts them (the slow test below), but for what is said.
PUBLISHED = {
    "gpt1": 116_534_784,
    "gpt2 124M": 124_439_808,
    "gpt2 355M": 354_823_168,
    "gpt2 774M": 774_030_080,
    "gpt2 1.5B": 1_557_611_200,
    "llama 125M": 134_105_856,
    "llama 350M": 373_867_520,
    "llama 1.3B": 1_364_297_728,
    "llama 3B": 2_701_560_320,
    "llama 7B": 6_738_415_616,
    "gpt3 125M": 125_226_240,
    "gpt3 350M": 355_871_744,
    "gpt3 760M": 760_300_032,
    "gpt3 1.3B": 1_315_723_264,
    "gpt3 2.7B": 2_651_553_280,
    "gpt3 6.7B": 6_658_404_352,
    "gpt3 13B": 12_853_386_240,
    "gpt3 175B": 174_604_259_328,
    "gpt_neo 125M": 125_198_592,
    "gpt_neo 1.3B": 1_315_575_808,
    "gpt_neo 2.7B": 2_651_307_520,
    "llama 13B": 13_015_864_320,
    "llama 33B": 32_528_943_616,
    "llama 65B": 65_285_660_672,
    "llama2 70B": 68_976_648_192,
    "llama3 8B": 8_030_261_248,
    "llama3 70B": 70_553_706_496,
    "llama3 405B": 405_853_388_800,
    "roformer base": 109_121_082,
    "roformer chinese-base": 124_099_664,
    "roformer chinese-small": 30_046_928,
    "bert base": 110_106_428,
    "bert large": 336_226_108,
    "roberta base": 124_697_433,
    "roberta large": 355_412_057,
    "distilbert": 66_985_530,
    "albert base": 11_813_810,
    "albert large": 17_847_474,
    "albert xlarge": 59_021_490,
    "albert xxlarge": 223_158_450,
    "electra small": 14_196_475,  # with the generator, and one table of tokens, types and positions for both
    "electra base": 119_387_963,
    "electra large": 354_657_339,
    "deberta_v1 base": 139_244_121,  # with the head for masked tokens, as the next ones
    "deberta_v1 large": 406_264_921,
    "deberta_v1 xlarge": 758_905_945,
    "deberta_v3 xsmall": 70_958_820,
    "deberta_v3 small": 142_024_548,
    "deberta_v3 base": 184_551_780,
    "deberta_v3 large": 435_191_908,
    "xlm en-2048": 667_119_041,
    "xlm ende-1024": 142_422_203,
    "xlm xnli15-1024": 249_071_384,
    "xlm 17-1280": 571_696_960,
    "transformer base": 63_082_496,
    "transformer big": 214_245_376,
    "t5 small": 60_506_624,
    "t5 base": 222_903_552,
    "t5 large": 737_668_096,
    "t5 3B": 2_851_598_336,
    "t5 11B": 11_307_321_344,
    "t5_v1_1 small": 76_961_152,
    "t5_v1_1 base": 247_577_856,
    "t5_v1_1 large": 783_150_080,
    "t5_v1_1 xl": 2_849_757_184,
    "t5_v1_1 xxl": 11_135_332_352,
    "vit B/16": 86_567_656,
    "vit L/16": 304_326_632,
    "vit H/14": 632_045_800,
    "swin T": 28_288_354,
    "swin S": 49_606_258,
    "swin B": 87_768_224,
    "swin L": 196_532_476,
    "convnext T": 28_589_128,
    "convnext S": 50_223_688,
    "convnext B": 88_591_464,
    "convnext L": 197_767_336,
    "convnext XL": 350_196_968,
    "poolformer S12": 11_915_176,
    "poolformer S24": 21_388_968,
    "poolformer S36": 30_862_760,
    "poolformer M36": 56_172_520,
    "poolformer M48": 73_473_448,
    "replknet 31B": 79_864_168,  # with the small kernels and norms of training
    "replknet 31L": 172_671_016,
    "replknet XL": 335_435_752,
    "max_vit T": 30_916_528,
    "max_vit S": 68_927_956,
    "max_vit B": 119_467_708,
    "max_vit L": 211_785_560,
    "max_vit XL": 474_951_952,
    "mae B/16": 111_655_680,  # the two tables of fixed positions are not among them
    "mae L/16": 329_239_296,
    "mae H/14": 656_613_964,
    "bit R50x1": 25_549_352,
    "bit R50x3": 217_319_080,
    "bit R101x1": 44_541_480,
    "bit R101x3": 387_934_888,
    "bit R152x2": 236_335_208,
    "bit R152x4": 936_533_224,
    "resnet 50": 25_557_032,  # statistics of batches are not among them
    "resnet 101": 44_549_160,
    "resnet 152": 60_192_808,
    "detr R50": 41_524_768,
    "detr R101": 60_464_672,
    "cvt 13": 19_997_480,  # statistics of batches are not among them
    "cvt 21": 31_622_696,
    "cvt W24": 277_196_392,
    "vq_tokenizer": 54_433_667,
    "mask_git 256": 172_457_193,
    "mask_git 512": 173_047_017,
    "sam B": 93_735_472,  # the random frequencies are not among them
    "sam L": 312_342_832,
    "sam H": 641_090_608,
}


NO_CLASS = ("max_vit", "replknet", "vq_tokenizer", "mask_git")  # of the reference: counted by their shapes below
SECONDS = ("max_vit S", "max_vit B", "max_vit L")  # traces of the other two sizes have the same layers


def preset(name: str) -> Any:
    family, *size = name.split()
    return getattr(text if hasattr(text, family) else vision, family)(*size)


@per_family("name", lambda name: describe_tree(preset(name)), seconds=0.3, cover=False, budget=6)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SECONDS)) for n in PUBLISHED])
def test_published_counts(name: str) -> None:
    family, *_ = name.split()
    model = preset(name)
    reads_tokens = hasattr(text, family) or family == "mask_git"
    given = [TOKENS] * (1 + isinstance(model, EncoderDecoder)) if reads_tokens else [IMAGE]
    named = {"languages": TOKENS} if family == "xlm" else {}
    if family == "sam":
        given, mask = [jax.ShapeDtypeStruct((1, 1024, 1024, 3), jnp.float32)], (1, 1, 256, 256)
        named = {"mask": jax.ShapeDtypeStruct(mask, jnp.float32)}
    assert count(model, *given, **named) == PUBLISHED[name]


ALONE = {
    "electra small": 13_549_057,  # the discriminator with its head
    "electra base": 109_483_009,
    "electra large": 335_142_913,
    "deberta_v1 base": 138_601_728,  # the encoder without a head, as the next ones
    "deberta_v1 large": 405_163_008,
    "deberta_v1 xlarge": 757_804_032,
    "deberta_v3 xsmall": 70_682_112,
    "deberta_v3 small": 141_304_320,
    "deberta_v3 base": 183_831_552,
    "deberta_v3 large": 434_012_160,
}


@pytest.mark.parametrize("name", ALONE)
def test_encoders_alone(name: str) -> None:
    family, size = name.split()
    if family == "electra":
        model = text.electra(size)
        assert count(model.discriminator, TOKENS) == ALONE[name]
        generators = {"small": 4_620_026, "base": 33_740_602, "large": 51_295_290}
        assert count(model.generator, TOKENS) == generators[size]
    else:
        assert count(getattr(text, family)(size, head=None), TOKENS) == ALONE[name]


def test_presets_are_values() -> None:
    assert text.gpt2("355M", dropout=0.1, vocab=50304).vocab == 50304
    assert vision.vit("H/14").positions.max_length == 257
    with pytest.raises(UserError, match=r"size: expected one of 124M.*, got '356M'; did you mean 355M"):
        text.gpt2("356M")


def test_mae_base() -> None:
    """ViT-B without a classifier and with fixed positions, and the decoder of 8 layers and width 512."""
    block = lambda d: 12 * d * d + 13 * d  # noqa: E731  four d x d projections, two of 4d x d, biases, two norms
    encoder = 12 * block(768) + (768 + 1) * 768 + 768 + 2 * 768  # patches, class token, last norm
    decoder = 8 * block(512) + (768 + 1) * 512 + 512 + 2 * 512 + (512 + 1) * 768
    assert count(MAE(patch=16, width=768, depth=12, heads=12), IMAGE) == encoder + decoder


@pytest.mark.parametrize("size", vision.MAX_VIT)
def test_max_vit_by_its_shapes(size: str) -> None:
    """Without a reference class: the matrices and vectors of every layer (Tu et al. 2022, 3.3 and table 1)."""
    widths, depths, _ = vision.MAX_VIT[size]
    before = stem = {"L": 128, "XL": 192}.get(size, 64)
    total = 27 * stem + stem + 2 * stem + 9 * stem * stem + stem
    for d, depth in zip(widths, depths, strict=True):
        f, table = 4 * d, 13 * 13 * d // 32
        block = 4 * (d * d + d) + table + 2 * d * f + f + d + 4 * d  # attention, MLP, two norms
        for i in (before, *(d,) * (depth - 1)):
            conv = 2 * i + i * f + 2 * f + 9 * f + 2 * f + 2 * f * d // 4 + d // 4 + f + f * d + d
            total += conv + (i * d + d if i != d else 0) + 2 * block
        before = d
    assert total + 2 * d + d * d + d + 1000 * d + 1000 == PUBLISHED[f"max_vit {size}"]


@pytest.mark.parametrize("size", vision.REPLKNET)
def test_replknet_by_its_shapes(size: str) -> None:
    """Without a reference class: every convolution with its norm (Ding et al. 2022, 4.1), as it is trained."""
    widths, depths = vision.REPLKNET[size]
    sides, small, ratio = ((27, 27, 27, 13), 0, 1.5) if size == "XL" else ((31, 29, 27, 13), 5, 1.0)
    first = widths[0]
    total = 27 * first + 9 * first + first * first + 9 * first + 4 * 2 * first
    for i, (d, depth, side) in enumerate(zip(widths, depths, sides, strict=True)):
        hidden = int(ratio * d)
        kernels = hidden * side**2 + 2 * hidden + (hidden * small**2 + 2 * hidden if small else 0)
        mixer = 2 * d + 2 * d * hidden + 2 * hidden + 2 * d + kernels
        total += depth * (mixer + 2 * d + 8 * d * d + 2 * 4 * d + 2 * d)
        if i:
            total += widths[i - 1] * d + 2 * d + 9 * d + 2 * d
    assert total + 2 * widths[-1] + 1000 * widths[-1] + 1000 == PUBLISHED[f"replknet {size}"]


def test_mask_git_by_its_shapes() -> None:
    """BERT's layers, its head with a bias for each token, and no token types (Chang et al. 2022, 4.1)."""
    d, vocab = 768, 1024 + 1000 + 1
    for size, tokens in (("256", 257), ("512", 1025)):
        total = vocab * d + tokens * d + 2 * d + 24 * (12 * d * d + 13 * d) + d * d + d + 2 * d + vocab
        assert total == PUBLISHED[f"mask_git {size}"]


def test_vq_tokenizer_by_its_shapes() -> None:
    """Encoder, codebook and decoder; a block of other channels projects its input (Esser et al. 2021)."""

    def block(i: int, o: int) -> int:
        return 2 * i + 9 * i * o + 2 * o + 9 * o * o + (i * o if i != o else 0)

    widths = [128, 128, 256, 256, 512]
    encoder = 27 * 128 + sum(block(i, o) + block(o, o) for i, o in zip([128, *widths], widths, strict=False))
    encoder += 2 * block(512, 512) + 2 * 512 + 512 * 256 + 256
    decoder = 9 * 256 * 512 + 512 + 2 * block(512, 512) + 2 * 128 + 27 * 128 + 3
    decoder += sum(block(i, o) + block(o, o) for i, o in zip([512, *widths[::-1]], widths[::-1], strict=False))
    decoder += sum(9 * o * o + o for o in widths[1:])
    assert (encoder, decoder) == (23_611_264, 30_560_259)
    assert encoder + decoder + 1024 * 256 == PUBLISHED["vq_tokenizer"]


def names(width: int, depth: int, heads: int) -> dict[str, int]:
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}


def reference(t: Any, family: str, size: str = "") -> Any:
    """The model of `transformers` (t)."""
    if family == "gpt1":
        return t.OpenAIGPTLMHeadModel(t.OpenAIGPTConfig())
    if family in ("gpt2", "gpt3", "gpt_neo", "llama", "llama2", "llama3"):
        return decoder(t, family, getattr(text, family)(size))
    if family == "xlm":
        sizes = dict(zip(("emb_dim", "n_layers", "n_heads"), text.XLM[size], strict=True))
        languages = {"n_langs": text.XLM_LANGUAGES.get(size, 1), "vocab_size": text.XLM_TOKENS[size]}
        return t.XLMWithLMHeadModel(t.XLMConfig(**sizes, **languages))
    if family in ("transformer", "t5", "t5_v1_1"):
        return encoder_decoder(t, getattr(text, family)(size), version_1_1=family == "t5_v1_1")
    if family == "distilbert":
        return t.DistilBertForMaskedLM(t.DistilBertConfig())
    if family in ("roberta", "albert"):
        return encoder(t, family, size)
    if family == "electra":
        return electra(t, size)
    if family in ("deberta_v1", "deberta_v3"):
        return deberta(t, size, v3=family == "deberta_v3")
    if family == "roformer":
        model = text.roformer(size)
        fields = names(*text.ROFORMER[size]) | {"intermediate_size": 4 * model.width, "vocab_size": model.vocab}
        return t.RoFormerForMaskedLM(t.RoFormerConfig(**fields, embedding_size=model.width))
    if family == "detr":
        return detr(t, size)
    if family == "sam":
        return sam(t, vision.sam_encoder(size))
    if family in STAGES:
        return STAGES[family](t, *map(list, getattr(vision, family.upper())[size]))
    sizes = text.BERT[size] if family == "bert" else vision.VIT[size]
    fields = names(*sizes) | {"intermediate_size": 4 * sizes[0]}
    if family == "bert":
        return t.BertForPreTraining(t.BertConfig(**fields))
    fields["patch_size"] = int(size.split("/")[1])
    if family == "vit":
        return t.ViTForImageClassification(t.ViTConfig(**fields, num_labels=1000))
    return t.ViTMAEForPreTraining(t.ViTMAEConfig(**fields))


def swin(t: Any, widths: list[int], depths: list[int], heads: list[int]) -> Any:
    config = t.SwinConfig(embed_dim=widths[0], depths=depths, num_heads=heads, num_labels=1000)
    return t.SwinForImageClassification(config)


def convnext(t: Any, widths: list[int], depths: list[int]) -> Any:
    config = t.ConvNextConfig(hidden_sizes=widths, depths=depths, num_labels=1000)
    return t.ConvNextForImageClassification(config)


def poolformer(t: Any, widths: list[int], depths: list[int]) -> Any:
    config = t.PoolFormerConfig(hidden_sizes=widths, depths=depths, num_labels=1000)
    return t.PoolFormerForImageClassification(config)


def cvt(t: Any, widths: list[int], depths: list[int], heads: list[int]) -> Any:
    config = t.CvtConfig(embed_dim=widths, depth=depths, num_heads=heads, num_labels=1000)
    return t.CvtForImageClassification(config)


def bit(t: Any, widths: list[int], depths: list[int]) -> Any:
    """With all channels multiplied: the reference's own factor leaves some of them as they are."""
    config = t.BitConfig(embedding_size=widths[0] // 4, hidden_sizes=widths, depths=depths, num_labels=1000)
    return t.BitForImageClassification(config)


def resnet(t: Any, widths: list[int], depths: list[int]) -> Any:
    return t.ResNetForImageClassification(t.ResNetConfig(hidden_sizes=widths, depths=depths, num_labels=1000))


def detr(t: Any, size: str) -> Any:
    widths, depths = map(list, vision.RESNET[size.removeprefix("R")])
    backbone = t.ResNetConfig(hidden_sizes=widths, depths=depths, out_features=["stage4"])
    model = t.DetrForObjectDetection(t.DetrConfig(backbone_config=backbone, num_labels=91))
    return model.requires_grad_(True)  # its constructor freezes the backbone


def sam(t: Any, own: ViT) -> Any:
    every = len(own.attentions())
    everywhere = list(range(every - 1, own.depth, every))
    encoder = names(own.width, own.depth, own.heads) | {"mlp_dim": 4 * own.width, "global_attn_indexes": everywhere}
    model = t.SamModel(t.SamConfig(vision_config=encoder))
    model.shared_image_embedding.positional_embedding.requires_grad_(False)  # no weight: random and constant
    return model


STAGES = {"resnet": resnet, "swin": swin, "convnext": convnext, "poolformer": poolformer, "cvt": cvt, "bit": bit}


def encoder(t: Any, family: str, size: str) -> Any:
    """RoBERTa or ALBERT."""
    sizes = (text.BERT if family == "roberta" else text.ALBERT)[size]
    fields = names(*sizes) | {"intermediate_size": 4 * sizes[0]}
    if family == "albert":
        return t.AlbertForPreTraining(t.AlbertConfig(**fields))
    return t.RobertaForMaskedLM(t.RobertaConfig(**fields, max_position_embeddings=514, type_vocab_size=1))


def electra(t: Any, size: str) -> Any:
    """Both networks, whose three tables exist once."""
    import torch

    embed = {"embedding_size": 128 if size == "small" else text.ELECTRA[size][0]}

    def made(kind: Any, sizes: tuple[int, int, int]) -> Any:
        return kind(t.ElectraConfig(**names(*sizes), **embed, intermediate_size=4 * sizes[0]))

    generator = made(t.ElectraForMaskedLM, text.ELECTRA_GENERATOR[size])
    discriminator = made(t.ElectraForPreTraining, text.ELECTRA[size])
    for table in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        shared = getattr(generator.electra.embeddings, table)
        setattr(discriminator.electra.embeddings, table, shared)
    both = torch.nn.ModuleList([generator, discriminator])
    both.tie_weights = generator.tie_weights
    return both


def deberta(t: Any, size: str, v3: bool) -> Any:
    sizes = text.DEBERTA_V3[size] if v3 else text.DEBERTA[size]
    fields = names(*sizes) | {"intermediate_size": 4 * sizes[0], "type_vocab_size": 0, "relative_attention": True}
    fields |= {"pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
    if not v3:
        return t.DebertaForMaskedLM(t.DebertaConfig(**fields))
    more = {"position_buckets": 256, "share_att_key": True, "norm_rel_ebd": "layer_norm", "vocab_size": 128100}
    return t.DebertaV2ForMaskedLM(t.DebertaV2Config(**fields, **more))


def decoder(t: Any, family: str, own: Decoder) -> Any:
    """The reference of the sizes of ours."""
    fields = names(own.width, own.depth, own.heads) | {"vocab_size": own.vocab}
    hidden, positions = own.mlp.hidden_size(own.width), getattr(own.positions, "max_length", None)
    if family == "gpt_neo":
        kinds = [[["global", "local"], own.depth // 2]]
        sizes = {"hidden_size": own.width, "num_layers": own.depth, "num_heads": own.heads}
        return t.GPTNeoForCausalLM(t.GPTNeoConfig(**sizes, attention_types=kinds, max_position_embeddings=positions))
    if positions is not None:
        sizes = {"n_embd": own.width, "n_layer": own.depth, "n_head": own.heads, "n_positions": positions}
        return t.GPT2LMHeadModel(t.GPT2Config(**sizes))
    grouped = {"num_key_value_heads": own.kv_heads or own.heads, "intermediate_size": hidden}
    return t.LlamaForCausalLM(t.LlamaConfig(**fields | grouped))


def encoder_decoder(t: Any, own: EncoderDecoder, version_1_1: bool) -> Any:
    """The reference of the sizes of ours."""
    hidden = own.mlp.hidden_size(own.width)
    if isinstance(own.positions, Sinusoidal):
        sizes = {"layers": own.depth, "ffn_dim": hidden, "attention_heads": own.heads}
        both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
        return t.MarianMTModel(t.MarianConfig(vocab_size=own.vocab, pad_token_id=0, d_model=own.width, **both))
    fields = {"d_model": own.width, "num_layers": own.depth, "num_heads": own.heads, "d_kv": own.head_size()}
    projection = "gated-gelu" if version_1_1 else "relu"
    model = t.T5ForConditionalGeneration(t.T5Config(**fields, d_ff=hidden, feed_forward_proj=projection))
    if version_1_1:  # the class ties the head of any config; published files have one of their own
        model.lm_head, model.tie_weights = copy.deepcopy(model.lm_head), lambda: None
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.split()[0] not in NO_CLASS])
def test_the_reference_counts_the_same(name: str) -> None:
    """Built from its own config, without weights."""
    torch, transformers = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    with torch.device("meta"):
        model = reference(transformers, *name.split())
    model.tie_weights()
    counted = [parameter for parameter in model.parameters() if parameter.requires_grad]  # MAE's positions are fixed
    assert sum(parameter.numel() for parameter in counted) == PUBLISHED[name]
