"""Hugging Face folders without the reference: exact round trips, and errors with names."""

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from txjax.interop import huggingface
from txjax.interop.huggingface.catalog import FAMILIES
from txjax.models import Stage
from txjax.models.text.bert import Bert
from txjax.models.text.deberta import Deberta, MaskDecoder, RelativeEmbeddings, deberta_v3
from txjax.models.text.decoder import gpt, gpt_neo, llama
from txjax.models.text.encoder_decoder import EncoderDecoder, t5, t5_v1_1, transformer
from txjax.models.vision.cvt import ConvAttention, CvT
from txjax.models.vision.mae import MAE
from txjax.models.vision.res_net import BiT, BottleneckConvs, BottleneckStem
from txjax.models.vision.sam import SAM, windows_then_all
from txjax.models.vision.vit import ViT
from txjax.nn import (
    MLP,
    Attention,
    BatchNorm,
    Classes,
    CrossAttention,
    Embed,
    FirstToken,
    GatedMLP,
    GroupNormRelu,
    LayerNorm,
    Learned,
    LinearAttention,
    LinearScaling,
    Llama3Scaling,
    MaskedTokens,
    MeanTokens,
    NextSentence,
    PaddingAwareLearned,
    PeriodicStack,
    PlainMaskedTokens,
    Pooled,
    Pooler,
    PositionedCrossAttention,
    PostNorm,
    PreNorm,
    PreNormWithoutFinal,
    ReplacedTokens,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    Softcap,
    Stack,
    StartEnd,
    T5Relative,
    Tied,
    TiedBias,
    TokenClasses,
    Untied,
)
from txjax.types import UserError

from helpers.arrays import numbers, variables
from helpers.small_towers import SMALL_TOWERS
from selection import describe_tree, per_family

pytestmark = pytest.mark.claim("Transfer", "exact round trips of Hugging Face folders")

TOKENS = jnp.asarray([[1, 2, 3, 4, 5], [7, 0, 3, 3, 1]], jnp.int32)
IMAGE, SQUARE = jnp.asarray(numbers(2, 4, 6, 1)), jnp.asarray(numbers(2, 4, 4, 3))
SINES = Sinusoidal2D()
CLASSES = Classes(3, FirstToken())
SMALL: dict[str, Any] = {"patch": 2, "width": 8, "depth": 2, "heads": 2, "norm": LayerNorm(eps=1e-12)}
DECODER = {"decoder_width": 12, "decoder_depth": 1, "decoder_heads": 3}
BERT: dict[str, Any] = {"vocab": 11, "width": 6, "depth": 2, "heads": 2, "positions": Learned(max_length=7)}

ROBERTA: dict[str, Any] = BERT | {"positions": PaddingAwareLearned(max_length=9), "types": 1}
ALBERT: dict[str, Any] = BERT | {"embed_width": 4, "depth": 6, "stack": Stack(groups=2)}
SPOKEN = {"tokens": TOKENS, "languages": TOKENS % 3}
WINDOWED = Attention(scale=1.0, biases=("out",), window=3)
PAIR = {"tokens": TOKENS, "source_tokens": TOKENS[:, :3]}
TRANSLATED: dict[str, Any] = {"vocab": 11, "width": 6, "depth": 2, "heads": 2}
GELU = Pooler(activation="gelu")
NARROW = MLP(hidden=7, activation="relu")
CVT = (Stage(4, 1, 1), Stage(6, 2, 2))
BIT: dict[str, Any] = {
    "stages": (Stage(32, 1), Stage(64, 3)),
    "stem": BottleneckStem(channels=8),
    "norm": GroupNormRelu(groups=4),
    "mixer": BottleneckConvs(eps=1e-8),
}
ENCODER = ViT(
    **SMALL | {"norm": LayerNorm(), "depth": 4},
    class_token=None,
    positions=Learned(max_length=4),
    mixer=windows_then_all(2, window=1, side=2),
    block=PreNormWithoutFinal(drop_path=0.1),
    stack=PeriodicStack(remat="full"),
)
CROSS = PositionedCrossAttention(head_size=2)
SEGMENTER = SAM(encoder=ENCODER, width=8, heads=2, cross=CROSS, mlp=MLP(hidden=6, activation="relu"), masks=2)
BUCKETS = RelativeEmbeddings(max_distance=9, buckets=4, norm=LayerNorm(eps=1e-7))


def tiny(**fields: Any) -> Any:
    return gpt(**{"vocab": 11, "width": 6, "depth": 3, "heads": 2, "max_length": 7, **fields})


MODELS = {
    "gpt2": (tiny(mlp=MLP(hidden=10, activation="relu"), dropout=0.2), {"tokens": TOKENS}),
    "llama": (llama(vocab=11, width=8, depth=2, heads=4, kv_heads=2), {"tokens": TOKENS}),
    "vit": (ViT(head=CLASSES, **SMALL, positions=Learned(max_length=7), image_size=(4, 6)), {"image": IMAGE}),
    "vit-features": (
        ViT(head=Pooled(Pooler()), **SMALL, positions=Learned(max_length=5)),
        {"image": SQUARE},
    ),
    "vit-fixed": (ViT(**SMALL, positions=SINES, image_size=(4, 6)), {"image": IMAGE}),
    "vit-qkv-bias": (
        ViT(head=CLASSES, **SMALL, positions=SINES, image_size=(4, 6), mixer=Attention(biases=("out",))),
        {"image": IMAGE},
    ),
    "mae": (MAE(**SMALL, **DECODER, image_size=(4, 6)), {"image": IMAGE}),
    "mae-learned": (MAE(**SMALL, **DECODER, positions=Learned(max_length=5)), {"image": SQUARE}),
    "bert": (Bert(**BERT, head=MaskedTokens(next_sentence=NextSentence())), {"tokens": TOKENS}),
    "bert-masked": (Bert(**BERT), {"tokens": TOKENS}),
    "bert-classes": (Bert(**BERT, head=Classes(3, Pooler())), {"tokens": TOKENS}),
    "bert-tokens": (Bert(**BERT, head=TokenClasses(3)), {"tokens": TOKENS}),
    "bert-spans": (Bert(**BERT, head=StartEnd()), {"tokens": TOKENS}),
    "bert-features": (Bert(**BERT, head=Pooled(Pooler())), {"tokens": TOKENS}),
    "roberta": (Bert(**ROBERTA), {"tokens": TOKENS}),
    "roberta-classes": (Bert(**ROBERTA, head=Classes(3, Pooler()), dropout=0.2), {"tokens": TOKENS}),
    "distilbert": (Bert(**BERT, types=None), {"tokens": TOKENS}),
    "distilbert-classes": (Bert(**BERT, types=None, head=Classes(3, Pooler(activation="relu"))), {"tokens": TOKENS}),
    "albert": (Bert(**ALBERT, head=MaskedTokens(next_sentence=NextSentence())), {"tokens": TOKENS}),
    "albert-features": (Bert(**ALBERT, head=Pooled(Pooler())), {"tokens": TOKENS}),
    "xlm": (Bert(**BERT, types=None, languages=3, head=PlainMaskedTokens()), SPOKEN),
    "xlm-no-languages": (
        Bert(**BERT, types=None, mlp=MLP(activation="relu"), dropout=0.1, head=PlainMaskedTokens()),
        {"tokens": TOKENS},
    ),
    "xlm-classes": (Bert(**BERT, types=None, head=Classes(3, FirstToken())), {"tokens": TOKENS}),
    "llama-tied": (llama(vocab=11, width=8, depth=2, heads=4, head=Tied()), {"tokens": TOKENS}),
    "llama-linear": (
        llama(vocab=11, width=8, depth=2, heads=4, positions=Rotary(scaling=LinearScaling(factor=2.0))),
        {"tokens": TOKENS},
    ),
    "llama3": (
        llama(vocab=11, width=8, depth=2, heads=2, kv_heads=1, positions=Rotary(theta=50.0, scaling=Llama3Scaling())),
        {"tokens": TOKENS},
    ),
    "qwen2": (
        llama(vocab=11, width=8, depth=2, heads=2, mixer=Attention(biases=("query", "key", "value"))),
        {"tokens": TOKENS},
    ),
    "qwen3": (
        llama(vocab=11, width=8, depth=2, heads=2, mixer=Attention(use_bias=False, qk_norm=RMSNorm(eps=1e-5))),
        {"tokens": TOKENS},
    ),
    "gpt_neo": (gpt_neo(vocab=11, width=6, depth=4, heads=2, max_length=7, window=3), {"tokens": TOKENS}),
    "roformer": (
        Bert(vocab=11, width=8, depth=2, heads=2, positions=Rotary(), head=MaskedTokens()),
        {"tokens": TOKENS},
    ),
    "roformer-narrow": (
        Bert(vocab=11, width=8, depth=2, heads=2, positions=Rotary(), embed_width=4, head=Classes(3, GELU)),
        {"tokens": TOKENS},
    ),
    "marian": (transformer(**TRANSLATED, encoder_depth=3), PAIR),
    "marian-two-sizes": (
        transformer(**TRANSLATED, encoder_heads=3, encoder_mlp=MLP(hidden=7, activation="relu")),
        PAIR,
    ),
    "marian-bias": (transformer(**TRANSLATED, mlp=MLP(hidden=7, dropout=0.1), dropout=0.1, head=TiedBias()), PAIR),
    "marian-two-vocabularies": (transformer(**TRANSLATED, source_vocab=13, embedding=Embed()), PAIR),
    "marian-untied": (transformer(**TRANSLATED, source_vocab=11, head=Untied()), PAIR),
    "t5": (t5(**TRANSLATED, encoder_depth=1, head_size=5, dropout=0.1, positions=T5Relative(buckets=8)), PAIR),
    "t5-tied": (t5(**TRANSLATED, head=Tied(), mlp=GatedMLP(activation="gelu", use_bias=False)), PAIR),
    "t5-v1_1": (t5_v1_1(**TRANSLATED), PAIR),
    "electra": (Bert(**BERT, embed_width=4, head=ReplacedTokens()), {"tokens": TOKENS}),
    "electra-classes": (Bert(**BERT, head=Classes(3, GELU)), {"tokens": TOKENS}),
    "electra-alone": (Bert(**BERT, head=None), {"tokens": TOKENS}),
    "electra-masked": (Bert(**BERT, embed_width=4), {"tokens": TOKENS}),
    **SMALL_TOWERS,
    "cvt": (CvT(stages=CVT, mixer=ConvAttention(norm=BatchNorm(group=2)), head=CLASSES), {"image": IMAGE}),
    "sam": (SEGMENTER, {"image": SQUARE, "mask": jnp.asarray(numbers(2, 1, 8, 8))}),
    "bit": (BiT(**BIT, head=Classes(3, MeanTokens())), {"image": IMAGE}),
    "bit-features": (BiT(**BIT, head=Pooled(MeanTokens())), {"image": IMAGE}),
    "deberta": (Deberta(**TRANSLATED, positions=RelativeEmbeddings(max_distance=7)), {"tokens": TOKENS}),
    "deberta-classes": (Deberta(**TRANSLATED, head=Classes(3, Pooler())), {"tokens": TOKENS}),
    "deberta-v3": (deberta_v3(**TRANSLATED, positions=BUCKETS, head=None), {"tokens": TOKENS}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("folders")


def folder_of(kind: str, folders: Path, copy: Path) -> tuple[Any, Any, Path]:
    """A model, its weights, and a copy of their folder for the test to edit."""
    model, inputs = MODELS[kind]
    original = variables(model, **inputs)
    if not (folders / kind).exists():
        huggingface.save(model, original, folders / kind)
    shutil.copytree(folders / kind, copy / "saved")
    return model, original, copy / "saved"


# Models that several families have.
CHOSEN = {
    "electra-tokens": (Bert(**BERT, head=TokenClasses(3), norm=LayerNorm(eps=1e-12)), {"tokens": TOKENS}),
    "xlm-plain-tokens": (
        Bert(**BERT, head=TokenClasses(3), types=None, norm=LayerNorm(eps=1e-12), mlp=MLP(hidden=24)),
        {"tokens": TOKENS},
    ),
}


@pytest.fixture(params=MODELS)
def saved(request, folders, tmp_path):
    return folder_of(request.param, folders, tmp_path)


def edit(folder, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def retensor(folder, change) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def forward(model: Any, original: Any, inputs: Any) -> Any:
    return jax.jit(functools.partial(huggingface.forward, model))(original, inputs)


def equal(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


@per_family("saved", lambda kind: describe_tree(MODELS[kind][0]), seconds=0.4, budget=4)
def test_a_round_trip_is_exact(saved, tmp_path):
    model, original, folder = saved
    again, weights = huggingface.load(folder)
    equal(weights, original)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(weights))
    huggingface.save(again, weights, tmp_path / "second")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "second" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("bert-classes", "BertForSequenceClassification"),
        ("bert-features", "BertModel"),
        ("roberta", "RobertaForMaskedLM"),
        ("distilbert-classes", "DistilBertForSequenceClassification"),
        ("albert", "AlbertForPreTraining"),
        ("electra", "ElectraForPreTraining"),
        ("electra-classes", "ElectraForSequenceClassification"),
        ("electra-alone", "ElectraModel"),
        ("electra-masked", "ElectraForMaskedLM"),
        ("deberta-classes", "DebertaForSequenceClassification"),
        ("deberta-v3", "DebertaV2Model"),
        ("roformer-narrow", "RoFormerForSequenceClassification"),
        ("xlm", "XLMWithLMHeadModel"),
        ("xlm-classes", "XLMForSequenceClassification"),
    ],
)
def test_one_relative_of_bert_writes_a_model(kind, architecture, folders, tmp_path):
    model, _, folder = folder_of(kind, folders, tmp_path)
    assert json.loads((folder / "config.json").read_text())["architectures"] == [architecture]
    relatives = [each for each in FAMILIES if each.matches(model) and each.model_type != "bert"]
    assert len(relatives) <= 1  # whatever their order


@pytest.mark.parametrize(
    ("kind", "model_type", "architecture"),
    [
        ("electra-tokens", "bert", "BertForTokenClassification"),
        ("electra-tokens", "electra", "ElectraForTokenClassification"),
        ("electra-tokens", "roberta", None),
        ("bert", "electra", None),  # which has no pairs
        ("electra-classes", "bert", None),  # whose pooler has another activation
        ("roberta", "xlm-roberta", "XLMRobertaForMaskedLM"),
        ("xlm-plain-tokens", "xlm", "XLMForTokenClassification"),
        ("vit-fixed", "vit", "ViTModel"),
        ("gpt2", "llama", None),
    ],
)
def test_the_family_of_a_file_is_chosen_among_those_that_have_the_model(kind, model_type, architecture, tmp_path):
    model, inputs = CHOSEN.get(kind) or MODELS[kind]
    original = variables(model, **inputs)
    huggingface.save(model, original, tmp_path / "kept", {"model_type": model_type})
    config = json.loads((tmp_path / "kept" / "config.json").read_text())
    if architecture is None:
        assert config["model_type"] != model_type
        with pytest.raises(UserError, match=f"--family: expected one that has this model, .*, got '{model_type}'"):
            huggingface.save(model, original, tmp_path / "asked", family=model_type)
    else:
        assert (config["model_type"], config["architectures"]) == (model_type, [architecture])
        weights = huggingface.load(tmp_path / "kept")[1]
        equal(weights, original)
        huggingface.save(model, original, tmp_path / "asked", family=model_type)
        assert json.loads((tmp_path / "asked" / "config.json").read_text()) == config


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bert", {"architectures": ["BertForMaskedLM"]}),  # as the authors' files are, which have pairs too
        ("roberta", {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}),
        ("roformer", {"embedding_size": None}),
    ],
)
def test_other_names_of_the_same(kind, values, folders, tmp_path):
    _, original, folder = folder_of(kind, folders, tmp_path)
    edit(folder, **values)
    equal(huggingface.load(folder)[1], original)


def test_multiple_choice_is_read(tmp_path):
    """It has the tensors of one class, and logits [B O] of texts [B O L]."""
    model = Bert(**BERT, head=Classes(1, Pooler()))
    weights = variables(model, TOKENS)
    huggingface.save(model, weights, tmp_path / "choices")
    edit(tmp_path / "choices", architectures=["BertForMultipleChoice"])
    again, read = huggingface.load(tmp_path / "choices")
    texts = jnp.stack([TOKENS, TOKENS + 1, TOKENS], 1)
    found = forward(again, read, {"input_ids": texts})["logits"]
    want = jax.jit(model.apply)(weights, texts.reshape(-1, texts.shape[-1]))
    np.testing.assert_allclose(found, want.reshape(2, 3), rtol=1e-5, atol=1e-6)


def test_robertas_multiple_choice_has_another_pooler(tmp_path):
    model = Bert(**ROBERTA, head=Classes(1, Pooler()))
    original = variables(model, TOKENS)
    huggingface.save(model, original, tmp_path)

    def rename(tensors: dict) -> None:
        for ours, theirs in (("classifier.dense", "roberta.pooler.dense"), ("classifier.out_proj", "classifier")):
            for kind in ("weight", "bias"):
                tensors[f"{theirs}.{kind}"] = tensors.pop(f"{ours}.{kind}")

    retensor(tmp_path, rename)
    edit(tmp_path, architectures=["RobertaForMultipleChoice"])
    equal(huggingface.load(tmp_path)[1], original)


@pytest.mark.parametrize("kind", ["gpt2", "mae"])
def test_shards_hold_the_same(kind, folders, tmp_path):
    model, original, folder = folder_of(kind, folders, tmp_path)
    huggingface.save(model, original, tmp_path / "shards", shard_bytes=500)
    files = sorted(path.name for path in (tmp_path / "shards").glob("*.safetensors"))
    assert len(files) > 2 and files[0] == f"model-00001-of-{len(files):05}.safetensors"
    index = json.loads((tmp_path / "shards" / "model.safetensors.index.json").read_text())
    whole = load_file(folder / "model.safetensors")
    assert set(index["weight_map"]) == set(whole)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in whole.values())
    for path in (tmp_path / "shards").glob("*.safetensors"):
        parts = load_file(path)
        assert len(parts) == 1 or sum(part.nbytes for part in parts.values()) <= 500
    equal(huggingface.load(tmp_path / "shards")[1], original)
    (tmp_path / "shards" / files[1]).unlink()
    with pytest.raises(UserError, match=files[1]):
        huggingface.load(tmp_path / "shards")


def test_forward_takes_and_returns_reference_names():
    model, _ = MODELS["gpt2"]
    original = variables(model, TOKENS)
    out = forward(model, original, {"input_ids": TOKENS})
    given = jax.jit(model.apply)(original, TOKENS)
    np.testing.assert_allclose(out["logits"], given.dense(), rtol=1e-5, atol=1e-6)
    assert out["last_hidden_state"].shape == (2, 5, 6)
    with pytest.raises(UserError, match="attention_mask"):
        huggingface.forward(model, original, {"input_ids": TOKENS, "attention_masks": TOKENS})
    with pytest.raises(UserError, match="input_ids"):
        huggingface.forward(model, original, {"attention_mask": TOKENS})


@per_family("kind", lambda kind: describe_tree(MODELS[kind][0]), seconds=0.2, budget=4, cover=False)
@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("gpt2", {"model_type": "gpt3"}, r"model_type: expected one of .*; did you mean gpt2"),
        ("gpt2", {"architectures": ["GPT2ForTokenClassification"]}, "architectures: expected one of GPT2LMHeadModel"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx: expected False"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights: expected True"),
        ("gpt2", {"activation_function": "mish"}, "activation_function: expected one of gelu"),
        ("gpt2", {"n_layer": "3"}, "n_layer: expected a value like 12, got '3'"),
        ("gpt2", {"n_layer": 2}, r"h\.2\..*: expected no such tensor"),
        ("gpt2", {"n_layer": 4}, r"h\.3\..*: expected a tensor of that name"),
        ("gpt2", {"n_positions": 8}, r"wpe\.weight: expected the shape \[8, 6\], got \[7, 6\]"),
        (
            "llama",
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rope_scaling: expected rotary angles of all channels, with rope_type default or linear or llama3",
        ),
        ("llama", {"rope_parameters": {"rope_type": "llama3"}}, "rope_parameters: expected a number as factor"),
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window: expected False"),
        (
            "qwen3",
            {"layer_types": ["full_attention", "sliding_attention"]},
            "layer_types: expected full_attention in all",
        ),
        (
            "gpt_neo",
            {"attention_types": [[["global", "local"], 3]]},
            "attention_types: expected global or local for each of 4",
        ),
        ("gpt_neo", {"attention_types": [["global", 4]]}, "attention_types: expected global or local for each of 4"),
        ("roformer", {"rotary_value": True}, "rotary_value: expected False"),
        ("roformer", {"embedding_size": 5}, r"word_embeddings\.weight: expected the shape \[11, 5\], got \[11, 8\]"),
        ("vit", {"qkv_bias": False}, r"key\.bias: expected no such tensor"),
        ("vit-qkv-bias", {"qkv_bias": True}, r"query\.bias: expected a tensor of that name"),
        ("vit", {"patch_size": [2, 1]}, r"patch_size: expected square patches"),
        ("vit", {"image_size": 8}, r"position_embeddings: expected the shape \[1, 17, 8\]"),
        ("vit", {"id2label": {}, "num_channels": 3}, r"projection\.weight: expected the shape \[8, 3, 2, 2\]"),
        ("vit-features", {"pooler_act": "relu"}, "pooler_act: expected 'tanh'"),
        ("mae", {"decoder_intermediate_size": 50}, "decoder_intermediate_size: expected 48, in the encoder's ratio"),
        ("bert", {"is_decoder": True}, "is_decoder: expected False"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type: expected 'absolute'"),
        ("bert-masked", {"architectures": ["BertForPreTraining"]}, r"pooler\.dense\.weight: expected a tensor"),
        ("bert-masked", {"tie_word_embeddings": False}, "tie_word_embeddings: expected True"),
        ("roberta", {"hidden_act": "relu"}, "hidden_act: expected .gelu., that of the reference.s head, got .relu."),
        ("roberta", {"pad_token_id": "1"}, "pad_token_id: expected a value like 1"),
        ("roberta", {"max_position_embeddings": 7}, r"position_embeddings\.weight: expected the shape \[7, 6\]"),
        ("distilbert", {"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds: expected False"),
        ("distilbert", {"architectures": ["BertModel"]}, "architectures: expected one of DistilBertForMaskedLM"),
        ("albert", {"inner_group_num": 2}, "inner_group_num: expected 1, got 2"),
        ("albert", {"num_hidden_groups": 4}, "num_hidden_groups: expected a divisor of num_hidden_layers = 6, got 4"),
        ("albert", {"num_hidden_groups": 3}, r"layer_groups\.2\..*: expected a tensor of that name"),
        ("xlm-classes", {"summary_type": "last"}, "summary_type: expected 'first', got 'last'"),
        ("xlm", {"causal": True}, "causal: expected False"),
        ("xlm", {"n_langs": 2}, r"lang_embeddings\.weight: expected the shape \[2, 6\], got \[3, 6\]"),
        ("xlm-no-languages", {"n_langs": 2, "use_lang_emb": True}, r"lang_embeddings\.weight: expected a tensor"),
        ("llama", {"attention_bias": True}, r"q_proj\.bias: expected a tensor of that name"),
        ("llama", {"num_key_value_heads": 4}, r"k_proj\.weight: expected the shape \[8, 8\], got \[4, 8\]"),
        ("marian", {"normalize_before": True}, "normalize_before: expected False"),
        ("marian", {"decoder_ffn_dim": 8}, r"fc1\.weight: expected the shape \[8, 6\], got \[24, 6\]"),
        ("marian", {"decoder_vocab_size": 12}, "decoder_vocab_size: expected vocab_size = 11.*, got 12"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings: expected True"),
        ("marian", {"encoder_layers": 2}, r"encoder\.layers\.2\..*: expected no such tensor"),
        ("marian-untied", {"share_encoder_decoder_embeddings": True}, "tie_word_embeddings: expected True"),
        ("marian-bias", {"encoder_layerdrop": 0.1}, "encoder_layerdrop: expected 0.0, got 0.1"),
        ("t5", {"is_decoder": True}, "is_decoder: expected False"),
        ("t5", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj: expected one of gelu"),
        ("t5", {"feed_forward_proj": "gelu"}, "dense_act_fn: expected 'gelu', got 'relu'"),
        ("t5", {"d_kv": 3}, r"SelfAttention\.q\.weight: expected the shape \[6, 6\], got \[10, 6\]"),
        ("t5-v1_1", {"scale_decoder_outputs": True}, r"lm_head\.weight: expected the same numbers as shared\.weight"),
        ("cvt", {"depth": [1, 2, 1]}, r"depth: expected 2 numbers, one a stage, got \[1, 2, 1\]"),
        ("cvt", {"stride_kv": [2, 1]}, "stride_kv: expected a list of one value for all of 2 stages"),
        ("cvt", {"padding_kv": [0, 0]}, r"padding_kv: expected \[1, 1\], got \[0, 0\]"),
        ("cvt", {"cls_token": [False, False]}, r"cls_token: expected \[False, True\]"),
        ("cvt", {"drop_path_rate": [0.1, 0.1]}, "drop_path_rate: expected 2 rates, 0.0 for all stages but the last"),
        ("cvt", {"patch_sizes": [7]}, "patch_sizes: expected one size, stride and padding for all stages but"),
        ("bit", {"layer_type": "bottleneck"}, "layer_type: expected 'preactivation', got 'bottleneck'"),
        # Errors of the model itself, with the keys of the reader's file.
        ("gpt2", {"n_head": 4}, r"^config\.json: n_head: expected a divisor of the width 6, got 4$"),
        (
            "gpt2",
            {"resid_pdrop": 1.5, "embd_pdrop": 1.5},
            r"^config\.json: resid_pdrop: expected less than 1, got 1\.5$",
        ),
        ("gpt2", {"attn_pdrop": -1.0}, r"^config\.json: attn_pdrop: expected at least 0, got -1\.0$"),
        ("llama", {"num_key_value_heads": 3}, r"^config\.json: num_key_value_heads: expected a divisor of the 4 heads"),
        (
            "marian",
            {"encoder_attention_heads": 4},
            r"^config\.json: encoder_attention_heads: expected a divisor of the w",
        ),
        (
            "t5",
            {"relative_attention_num_buckets": 1},
            r"^config\.json: relative_attention_num_buckets: expected at least",
        ),
        ("bit", {"num_groups": 3}, r"^config\.json: num_groups: expected a divisor of the 8 channels, got 3$"),
        (
            "sam",
            {"mask_decoder_config": {"hidden_size": 8, "num_attention_heads": 3}},
            r"^config\.json: mask_decoder_config\.num_attention_heads: expected a divisor of the width 8, got 3$",
        ),
        ("sam", {"mask_decoder_config": {}}, r"^config\.json: vision_config\.output_channels: expected 256, got 8"),
        ("bit", {"global_padding": "SAME"}, "global_padding: expected None, got 'SAME'"),
        ("bit", {"hidden_sizes": [32, 72]}, r"hidden_sizes: expected multiples of 32, got \[32, 72\]"),
        ("bit", {"output_stride": 4}, "output_stride: expected more than 4, got 4"),
        ("bit", {"depths": [1, 2]}, r"stages\.1\.layers\.2\..*: expected no such tensor"),
        ("bit", {"depths": [1, 4]}, r"stages\.1\.layers\.3\..*: expected a tensor of that name"),
        ("electra", {"embedding_size": 6}, r"word_embeddings\.weight: expected the shape \[11, 6\], got \[11, 4\]"),
        (
            "electra-masked",
            {"hidden_act": "relu"},
            "hidden_act: expected 'gelu', that of the .*, got 'relu'",
        ),
        (
            "deberta-classes",
            {"pooler_hidden_act": "mish"},
            "pooler_hidden_act: expected one of gelu, .*tanh, got",
        ),
        ("deberta-classes", {"pooler_hidden_size": 7}, "pooler_hidden_size: expected 6, got 7"),
        ("deberta", {"pos_att_type": ["c2p"]}, "pos_att_type: expected c2p and p2c"),
        ("deberta", {"position_biased_input": True}, "position_biased_input: expected False"),
        ("deberta-v3", {"conv_kernel_size": 3}, "conv_kernel_size: expected 0, got 3"),
        ("deberta-v3", {"share_att_key": False}, r"pos_query_proj\.weight: expected a tensor of that name"),
        (
            "clip",
            {"text_config": {"hidden_act": "mish"}},
            r"text_config\.hidden_act: expected one of gelu, .*quick_gelu",
        ),
        ("clip", {"text_config_dict": {"hidden_act": "mish"}}, r"text_config_dict\.hidden_act: expected one of gelu"),
        ("clip", {"vision_config": {"model_type": "vit"}}, r"vision_config\.model_type: expected 'clip_vision_model'"),
        ("clip", {"projection_dim": 5}, r"projection\.weight: expected the shape \[5, 8\], got \[4, 8\]"),
        ("clip", {"logit_scale_init_value": 1e9}, "config.json: expected values that a clip has"),
        ("clip-images", {"image_size": [4, 4]}, r"image_size: expected a value like 1, got \[4, 4\]"),
        ("clip-images", {"image_size": 5}, "patch_size: expected a divisor of the image's 5 x 5 pixels, got 2"),
        ("siglip", {"model_type": "siglip2"}, r"model_type: expected one of .*; did you mean siglip"),
        ("siglip", {"vision_config": {"vision_use_head": False}}, r"vision_config\.vision_use_head: expected True"),
        ("siglip", {"text_config": {"model_type": "gemma"}}, r"text_config\.model_type: expected 'siglip_text_model'"),
    ],
)
def test_options_are_refused_by_name(kind, values, said, folders, tmp_path):
    _, _, folder = folder_of(kind, folders, tmp_path)
    edit(folder, **values)
    with pytest.raises(UserError, match=said):
        huggingface.load(folder)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (tiny(norm=RMSNorm()), "config.model.norm.class"),
        (tiny(block=PostNorm()), r"config.model.block.class: expected '.*PreNorm'"),
        (tiny(kv_heads=1), "config.model.kv_heads: expected 2, got 1"),
        (ViT(**SMALL, head=CLASSES, positions=SINES), "config.model.image_size"),
        (ViT(**SMALL, head=CLASSES, class_token=None, positions=SINES, image_size=(4, 6)), "config.model.head.pool"),
        (ViT(**SMALL, head=Classes(3, Pooler()), positions=SINES, image_size=(4, 6)), "head.pool.class: .*FirstToken"),
        (Bert(**BERT, head=Classes(3, MeanTokens())), "config.model.head.pool.class: expected '.*Pooler'"),
        (Bert(**BERT, head=Pooled(FirstToken())), "config.model.head.pool.class: expected '.*Pooler'"),
        (Bert(**BERT, head=Tied()), "config.model.head: expected MaskedTokens, .* StartEnd or Pooled, got Tied"),
        (
            Bert(**BERT, types=None, head=Pooled(Pooler())),
            "config.model.head: .* or None, got Pooled.*distilbert",
        ),
        (Bert(**BERT, stack=Stack(groups=1)), "config.model.stack.groups: expected None, got 1"),
        (Bert(**ROBERTA, embed_width=4), "config.model.embed_width: expected None, got 4"),
        (Bert(**ALBERT | {"types": None}), "config.model.types: expected 2, got None"),
        (Bert(**ROBERTA, head=MaskedTokens(next_sentence=NextSentence())), "config.model.head.next_sentence"),
        (Bert(**ROBERTA, mlp=MLP(activation="relu")), "hidden_act: expected .gelu."),
        (
            Bert(**BERT, types=None, mlp=MLP(hidden=7), head=PlainMaskedTokens()),
            "config.model.mlp.hidden: expected 24, got 7",
        ),
        (Bert(**BERT, head=PlainMaskedTokens()), "config.model.types: expected None, got 2"),
        (tiny(mixer=Attention(head_size=4)), "config.model.mixer.head_size: expected 3, got 4"),
        (
            tiny(mixer=(Attention(),) * 3),
            "config.model.mixer: expected one Attention, the same",
        ),
        (
            gpt_neo(vocab=11, width=6, depth=4, heads=2, max_length=7, mixer=(WINDOWED, WINDOWED.clone(window=4))),
            r"config\.model\.mixer: expected one window in all local layers, got \[3, 4\]",
        ),
        (
            llama(vocab=11, width=8, depth=2, heads=2, mixer=LinearAttention()),
            "config.model.mixer: expected one Attention, the same in all layers, got 'LinearAttention'",
        ),
        (llama(vocab=11, width=8, depth=2, heads=2, head=Softcap(Untied())), "config.model.head.class: .*Untied"),
        (tiny(stack=Stack(groups=1)), "config.model.stack.groups: expected None, got 1"),
        (
            transformer(**TRANSLATED, positions=Sinusoidal()),
            "config.model.positions.layout: expected 'halves', got 'interleaved'",
        ),
        (transformer(**TRANSLATED, block=PreNorm()), "config.model.block.class: expected '.*PostNorm'"),
        (
            transformer(**TRANSLATED, cross=CrossAttention(head_size=4)),
            "config.model.cross.head_size: expected 3, got 4",
        ),
        (t5(**TRANSLATED, mixer=Attention(use_bias=False)), "config.model.mixer.scale: expected 1.0, got None"),
        (t5(**TRANSLATED, source_vocab=12), "config.model.source_vocab: expected None, got 12"),
        (Deberta(**TRANSLATED, mask_decoder=MaskDecoder()), "config.model.mask_decoder"),
        (Deberta(**TRANSLATED, head=ReplacedTokens()), "config.model.head: expected MaskedTokens, .* or None"),
        (EncoderDecoder(**TRANSLATED), "config.model: expected a model that Hugging Face has too"),
    ],
)
def test_unsupported_model_fields_are_refused(model, said, tmp_path):
    with pytest.raises(UserError, match=said):
        image = {"image": IMAGE} if isinstance(model, ViT) else {"tokens": TOKENS}
        given = PAIR if isinstance(model, EncoderDecoder) else image
        huggingface.save(model, variables(model, **given), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_missing_biases_are_zeros(tmp_path):
    model = tiny(mixer=Attention(use_bias=False), norm=LayerNorm(eps=1e-5, use_bias=False))
    original = variables(model, TOKENS)
    huggingface.save(model, original, tmp_path / "x")
    again, weights = huggingface.load(tmp_path / "x")
    block = weights["params"]["layers"]["block"]
    assert not block["attention"]["query"]["bias"].any() and not block["norm_mlp"]["bias"].any()
    given, want = (forward(m, v, {"input_ids": TOKENS})["logits"] for m, v in ((again, weights), (model, original)))
    np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-6)


def test_biases_of_some_projections(tmp_path):
    """If the format has one flag for several biases, the missing ones are zeros."""
    model = llama(vocab=11, width=8, depth=2, heads=4, mixer=Attention(biases=("query", "value")))
    original = variables(model, TOKENS)
    assert [name for name, part in original["params"]["layers"]["block"]["attention"].items() if "bias" in part] == [
        "query",
        "value",
    ]
    huggingface.save(model, original, tmp_path / "x")
    again, weights = huggingface.load(tmp_path / "x")
    attention = weights["params"]["layers"]["block"]["attention"]
    assert attention["query"]["bias"].any() and not attention["key"]["bias"].any() and "bias" in attention["out"]
    given, want = (forward(m, v, {"input_ids": TOKENS})["logits"] for m, v in ((again, weights), (model, original)))
    np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-6)
    wrong = llama(vocab=11, width=8, depth=2, heads=4, mixer=Attention(biases=("qurey",)))
    with pytest.raises(UserError, match=r"config\.model\.mixer\.biases: .*did you mean query"):
        wrong.init(jax.random.key(0), TOKENS)


def test_names_of_older_files(folders, tmp_path):
    """Names of the base model, buffers, a copy of the tied head, half precision."""
    _, original, folder = folder_of("gpt2", folders, tmp_path)

    def age(tensors: dict) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name).astype(ml_dtypes.bfloat16)
        tensors["h.0.attn.bias"] = np.ones((1, 1, 7, 7), np.uint8)
        tensors["lm_head.weight"] = tensors["wte.weight"].copy()

    retensor(folder, age)
    rounded = jax.tree.map(lambda leaf: leaf.astype(ml_dtypes.bfloat16).astype(np.float32), original)
    equal(huggingface.load(folder)[1], rounded)


@pytest.mark.parametrize("name", ["gpt2", "gpt_neo", "llama", "marian-untied"])
def test_a_head_that_differs_from_the_embeddings_is_untied(name, folders, tmp_path, caplog):
    model, original, folder = folder_of(name, folders, tmp_path)
    tables = ("wte.weight", "decoder.embed_tokens.weight", "model.embed_tokens.weight")

    def untie(tensors: dict) -> None:
        (table,) = (x for name, x in tensors.items() if name.endswith(tables))
        tensors["lm_head.weight"] = table + 1

    retensor(folder, untie)
    edit(folder, tie_word_embeddings=True)
    again, variables = huggingface.load(folder)
    assert isinstance(again.head, Untied)
    kernel = original["params"]["embed"]["embedding"].T + 1
    np.testing.assert_array_equal(variables["params"]["head"]["linear"]["kernel"], kernel)
    (line,) = caplog.messages
    assert line.startswith("lm_head.weight differs from ") and line.endswith("read as tie_word_embeddings: false")
    huggingface.save(again, variables, tmp_path / "again", {"tie_word_embeddings": True})
    assert json.loads((tmp_path / "again" / "config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.parametrize("name, copy", [("bert", "cls.predictions.decoder.weight"), ("t5", "lm_head.weight")])
def test_a_copy_that_differs_is_refused_where_no_model_is_untied(name, copy, folders, tmp_path):
    model, _, folder = folder_of(name, folders, tmp_path)
    shape = (model.vocab, model.width)
    retensor(folder, lambda tensors: tensors.update({copy: np.ones(shape, np.float32)}))
    with pytest.raises(
        UserError, match=f"{copy}: expected the same numbers as .*; config.json ties them, and .* no un"
    ):
        huggingface.load(folder)


def test_heads_of_other_classes_are_left_out(folders, tmp_path, caplog):
    _, original, folder = folder_of("bert", folders, tmp_path)
    edit(folder, architectures=["BertModel"])
    model, variables = huggingface.load(folder)
    assert isinstance(model.head, Pooled)
    equal(variables["params"]["pooler"], original["params"]["pooler"])
    modules = "cls.predictions, cls.seq_relationship"
    assert caplog.messages == [f"left out 7 tensors that the class in config.json doesn't read: {modules}"]
    retensor(folder, lambda tensors: tensors.update({"bert.pooler.dense.scale": np.ones(1, np.float32)}))
    with pytest.raises(UserError, match=r"bert\.pooler\.dense\.scale: expected no such tensor.*1 too many"):
        huggingface.load(folder)  # of a module that the class has


def test_a_file_without_architectures_is_the_bare_model(folders, tmp_path, caplog):
    _, _, folder = folder_of("distilbert", folders, tmp_path)
    edit(folder, architectures=None)
    assert huggingface.load(folder)[0].head is None
    assert caplog.messages == [
        "config.json: no architectures; it is read as a DistilBertModel",
        "left out 5 tensors that the class in config.json doesn't read: "
        "vocab_layer_norm, vocab_projector, vocab_transform",
    ]


def test_a_pickle_is_never_opened(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2Model"]}))
    with pytest.raises(UserError, match="expected model.safetensors"):
        huggingface.load(tmp_path / "x")
    (tmp_path / "x" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    at = repr(str(tmp_path / "x"))
    code = f"from transformers import GPT2Model as C; C.from_pretrained({at}).save_pretrained({at})"
    with pytest.raises(UserError, match=r"got 'pytorch_model.bin'.*can run code") as caught:
        huggingface.load(tmp_path / "x")
    assert str(caught.value).endswith(f'; to convert them: python -c "{code}"')


def test_damaged_folders_are_refused(folders, tmp_path):
    model, original, folder = folder_of("llama", folders, tmp_path)
    with pytest.raises(UserError, match="expected a folder without weights"):
        huggingface.save(model, original, folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-8])
    with pytest.raises(UserError, match="undamaged safetensors"):
        huggingface.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="expected JSON"):
        huggingface.load(folder)
    with pytest.raises(UserError, match="a folder with config.json"):
        huggingface.load(tmp_path / "nowhere")


def test_the_import_is_light():
    heavy = ("torch", "transformers", "tensorflow")
    code = f"import sys, txjax.interop.huggingface; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
