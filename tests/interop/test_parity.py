"""Outputs agree with the reference's, with its weights in our model and with our files in its loader."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from txjax.interop import huggingface
from txjax.interop.huggingface.catalog import FAMILIES
from txjax.nn import Sinusoidal2D

from selection import describe_architecture, per_family

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim(
        "Models and objectives",
        "Swin equals the reference's, with padded grids too (needs torch and transformers)",
    ),
    pytest.mark.claim(
        "Models and objectives",
        "SAM: one embedding for many prompts, objects that do not see each other; it equals the reference's, both "
        "ways (needs torch and transformers)",
    ),
    pytest.mark.claim("Transfer", "outputs of imported and exported models (needs torch and transformers)"),
]

V = 37  # odd, as most sizes here


class Case(NamedTuple):
    """A model of the reference and one call of it.

    Attributes:
      architecture: the class.
      config: of it.
      inputs: numpy arrays; `settings` of the call go with them to us alone (the reference has them in its config).
      outputs: the fields that are compared.
      fixed: the positions of a masked autoencoder are its sines.
      change: changes the model of the constructor.
      output_mask: 1 for the positions of the outputs that are not padding, if the inputs have others.
      unread: a pattern of the tensors that the reference has and never reads.
    """

    architecture: str
    config: Any
    inputs: dict[str, Any]
    outputs: tuple[str, ...]
    settings: dict[str, Any] = {}
    fixed: bool = False
    change: Callable[[Any], None] = lambda model: None
    output_mask: np.ndarray | None = None
    unread: str = r"(?!)"


def ids(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, V, (batch, length))


def left_padded(batch: int, length: int) -> dict[str, np.ndarray]:
    """Rows with 0, 1, 2, ... positions of padding before the text."""
    padding = np.arange(batch)[:, None]
    positions = np.arange(length)[None]
    mask = (positions >= padding).astype(np.int64)
    return {"attention_mask": mask, "position_ids": np.maximum(positions - padding, 0)}


def gpt2(**options: Any) -> Any:
    sizes = {"vocab_size": V, "n_embd": 21, "n_layer": 3, "n_head": 3, "n_positions": 11}
    return transformers.GPT2Config(**(sizes | options))


def llama(**options: Any) -> Any:
    sizes = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 2}
    return transformers.LlamaConfig(**(sizes | {"num_attention_heads": 4} | options))


def qwen(config: Any, **options: Any) -> Any:
    sizes = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 2}
    return config(**(sizes | {"num_attention_heads": 4, "num_key_value_heads": 2} | options))


def gpt_neo(**options: Any) -> Any:
    sizes = {"vocab_size": V, "hidden_size": 24, "num_layers": 4, "num_heads": 3, "intermediate_size": 31}
    more = {"max_position_embeddings": 19, "attention_types": [[["global", "local"], 2]], "window_size": 5}
    return transformers.GPTNeoConfig(**(sizes | more | options))


def roformer(**options: Any) -> Any:
    sizes = {"vocab_size": V, "embedding_size": 24, "hidden_size": 24, "intermediate_size": 33}
    more = {"num_hidden_layers": 2, "num_attention_heads": 3, "type_vocab_size": 3}
    return transformers.RoFormerConfig(**(sizes | more | options))


def image(config: Any, batch: int = 2) -> np.ndarray:
    sides = config.image_size if isinstance(config.image_size, (tuple, list)) else [config.image_size] * 2
    return np.random.default_rng(2).normal(size=(batch, config.num_channels, *sides)).astype(np.float32)


def vit(**options: Any) -> Any:
    sizes = {"hidden_size": 20, "intermediate_size": 33, "num_hidden_layers": 2, "num_attention_heads": 4}
    return transformers.ViTConfig(**(sizes | {"image_size": 15, "patch_size": 5} | options))


def mae(**options: Any) -> Any:
    sizes = {"hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 3, "num_attention_heads": 3}
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 2, "decoder_num_attention_heads": 2}
    both = sizes | decoder | {"decoder_intermediate_size": 24, "image_size": 20, "patch_size": 4}
    return transformers.ViTMAEConfig(**(both | options))


def ast(**options: Any) -> Any:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    patches = {"patch_size": 8, "frequency_stride": 5, "time_stride": 5, "max_length": 43, "num_mel_bins": 28}
    return transformers.ASTConfig(**(sizes | patches | {"num_labels": 5} | options))


def spectrogram(config: Any) -> np.ndarray:
    """Features whose last frames are the padding of the reference's front end, in one row of two."""
    features = np.random.default_rng(7).normal(size=(2, config.max_length, config.num_mel_bins)).astype(np.float32)
    features[1, 30:] = 0.467
    return features


def swin(**options: Any) -> Any:
    sizes = {"image_size": 56, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "num_labels": 5}
    return transformers.SwinConfig(**(sizes | options))


def convnext(**options: Any) -> Any:
    sizes = {"hidden_sizes": [8, 12, 20], "depths": [1, 2, 1], "num_stages": 3, "image_size": 44, "num_labels": 5}
    return transformers.ConvNextConfig(**(sizes | options))


def poolformer(**options: Any) -> Any:
    sizes = {"hidden_sizes": [8, 12, 20, 24], "depths": [1, 2, 1, 1], "num_labels": 5}
    return transformers.PoolFormerConfig(**(sizes | options))


def cvt(**options: Any) -> Any:
    sizes = {"embed_dim": [6, 10, 12], "depth": [1, 2, 3], "num_heads": [1, 2, 3], "num_labels": 5}
    return transformers.CvtConfig(**(sizes | options))


def bit(**options: Any) -> Any:
    sizes = {"embedding_size": 8, "hidden_sizes": [32, 64, 96], "depths": [1, 3, 2], "num_groups": 4, "num_labels": 5}
    return transformers.BitConfig(**(sizes | options))


def resnet(**options: Any) -> Any:
    sizes = {"embedding_size": 6, "hidden_sizes": [8, 16, 28], "depths": [1, 3, 2], "num_labels": 5}
    return transformers.ResNetConfig(**(sizes | options))


def detr(**options: Any) -> Any:
    sizes = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "num_queries": 5, "num_labels": 3}
    inner = {"encoder_ffn_dim": 37, "decoder_ffn_dim": 37}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
    backbone = resnet(out_features=["stage3"], num_labels=2)
    return transformers.DetrConfig(**(sizes | inner | heads | {"backbone_config": backbone} | options))


def scenes(config: Any) -> dict[str, np.ndarray]:
    """Two images of 45 x 70 pixels, of which the second has fewer rows and columns."""
    mask = np.ones((2, 45, 70), np.int64)
    mask[1, 29:] = mask[1, :, 41:] = 0
    pixels = np.random.default_rng(2).normal(size=(2, config.num_channels, 45, 70))
    return {"pixel_values": (pixels * mask[:, None]).astype(np.float32), "pixel_mask": mask}


VISION_TOWER = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
TEXT_TOWER = {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 27}
TEXT_TOWER |= {"vocab_size": V, "max_position_embeddings": 11, "bos_token_id": 3, "pad_token_id": 1}


def clip_vision(**options: Any) -> Any:
    sizes = VISION_TOWER | {"image_size": 28, "patch_size": 7, "projection_dim": 10}
    return transformers.CLIPVisionConfig(**(sizes | options))


def clip_text(**options: Any) -> Any:
    return transformers.CLIPTextConfig(**(TEXT_TOWER | {"eos_token_id": V - 1, "projection_dim": 10} | options))


def clip(vision: dict[str, Any], text: dict[str, Any]) -> Any:
    sides = {"vision_config": clip_vision(**vision).to_dict(), "text_config": clip_text(**text).to_dict()}
    return transformers.CLIPConfig(**sides, projection_dim=10)


def siglip_vision(**options: Any) -> Any:
    """Its images have a row and a column that are in no patch."""
    return transformers.SiglipVisionConfig(**(VISION_TOWER | {"image_size": 29, "patch_size": 7} | options))


def siglip_text(**options: Any) -> Any:
    own = {"eos_token_id": V - 1, "projection_size": 24}
    return transformers.SiglipTextConfig(**(TEXT_TOWER | own | options))


def siglip(vision: dict[str, Any], text: dict[str, Any]) -> Any:
    sides = {"vision_config": siglip_vision(**vision).to_dict(), "text_config": siglip_text(**text).to_dict()}
    return transformers.SiglipConfig(**sides)


def captions(*ends: int, length: int = 9) -> dict[str, np.ndarray]:
    """Texts that end, with the largest token, at these positions; behind it is padding."""
    tokens = np.random.default_rng(1).integers(4, V - 1, (len(ends), length))
    positions = np.arange(length)[None]
    last = np.asarray(ends)[:, None]
    tokens = np.where(positions < last, tokens, np.where(positions == last, V - 1, 1))
    return {"input_ids": tokens, "attention_mask": (positions <= last).astype(np.int64)}


def llava(**options: Any) -> Any:
    """Towers of four layers, whose images have four patches."""
    vision = clip_vision(num_hidden_layers=4, image_size=14).to_dict()
    text = llama(num_key_value_heads=2).to_dict()
    return transformers.LlavaConfig(
        **({"vision_config": vision, "text_config": text, "image_token_index": 5} | options)
    )


def pictured(config: Any, *texts: str) -> dict[str, np.ndarray]:
    """Texts of other tokens (`t`), images (`i`) and, before them, padding (`_`); the images of all in one array."""
    sizes = {"i": 4, "t": 1, "_": 1}
    rows = [np.repeat(list(text), [sizes[kind] for kind in text]) for text in texts]
    tokens = np.random.default_rng(1).integers(6, V, (len(texts), len(rows[0])))
    letters = np.stack(rows)
    pixels = image(config.vision_config, "".join(texts).count("i"))
    padding = {"attention_mask": (letters != "_").astype(np.int64)}
    positions = {"position_ids": np.maximum(np.cumsum(letters != "_", 1) - 1, 0)}
    return {"input_ids": np.where(letters == "i", 5, tokens), "pixel_values": pixels, **padding, **positions}


def sam(depth: int = 4, image: int = 80, **vision: Any) -> Any:
    """An encoder of windows that do not divide the grid; all sizes differ."""
    sizes = {"hidden_size": 24, "num_hidden_layers": depth, "num_attention_heads": 3, "mlp_dim": 31}
    own = {"global_attn_indexes": [1, 3], "window_size": 4, "output_channels": 16, "num_pos_feats": 8}
    both = {"image_size": image, "patch_size": 8}
    return transformers.SamConfig(
        vision_config=sizes | own | both | vision,
        prompt_encoder_config={"hidden_size": 16, "mask_input_channels": 8} | both,
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 23, "num_attention_heads": 2, "iou_head_hidden_dim": 14},
    )


def clicks(*labels: list[int], image: int = 80) -> dict[str, np.ndarray]:
    """An image's clicks on two objects, with these labels on the first and their reverse on the second."""
    both = np.array([[row, row[::-1]] for row in labels])
    points = np.random.default_rng(4).integers(0, image, (*both.shape, 2)).astype(np.float32)
    return {"input_points": points, "input_labels": both}


def bert(**options: Any) -> Any:
    sizes = {"vocab_size": V, "hidden_size": 20, "intermediate_size": 33, "num_hidden_layers": 2}
    more = {"num_attention_heads": 4, "max_position_embeddings": 13, "type_vocab_size": 3}
    return transformers.BertConfig(**(sizes | more | options))


def roberta(config: Any = transformers.RobertaConfig, **options: Any) -> Any:
    return config(**(sizes_of_bert() | {"type_vocab_size": 1, "layer_norm_eps": 1e-5} | options))


def distilbert(**options: Any) -> Any:
    sizes = {"vocab_size": V, "dim": 24, "hidden_dim": 31, "n_layers": 3, "n_heads": 3, "max_position_embeddings": 13}
    return transformers.DistilBertConfig(**(sizes | options))


def albert(**options: Any) -> Any:
    more = {"embedding_size": 10, "num_hidden_layers": 6, "type_vocab_size": 3, "hidden_act": "gelu_new"}
    return transformers.AlbertConfig(**(sizes_of_bert() | more | options))


def sizes_of_bert() -> dict[str, Any]:
    sizes = {"vocab_size": V, "hidden_size": 20, "intermediate_size": 33, "num_hidden_layers": 2}
    return sizes | {"num_attention_heads": 4, "max_position_embeddings": 15}


def padded(batch: int, length: int) -> dict[str, np.ndarray]:
    """Rows with 0, 3, 6, ... positions of RoBERTa's padding, whose id is 1, after the text."""
    tokens = np.where((found := ids(batch, length)) == 1, 2, found)
    mask = (np.arange(length)[None] < length - 3 * np.arange(batch)[:, None]).astype(np.int64)
    return {"input_ids": np.where(mask, tokens, 1), "attention_mask": mask}


def encoder(family: str, **options: Any) -> Any:
    """The config of a relative of BERT."""
    sizes = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 31, "num_hidden_layers": 2}
    more = {"num_attention_heads": 3, "max_position_embeddings": 40}
    return getattr(transformers, f"{family}Config")(**(sizes | more | options))


def marian(**options: Any) -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3}
    sides = [f"{side}_{name}" for side in ("encoder", "decoder") for name in ("ffn_dim", "attention_heads")]
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    more = dict(zip(sides, (31, 3, 31, 3), strict=True)) | {"activation_function": "relu", "scale_embedding": True}
    return transformers.MarianConfig(**(sizes | tokens | more | options))


def with_bias(model: Any) -> None:
    """Marian's bias of the logits is a buffer, of zeros."""
    model.final_logits_bias.copy_(torch.linspace(-1, 1, model.final_logits_bias.numel())[None])


def t5(**options: Any) -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "d_kv": 10, "d_ff": 31, "num_layers": 2, "num_decoder_layers": 3}
    more = {"num_heads": 3, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16}
    return transformers.T5Config(**(sizes | more | {"decoder_start_token_id": 0} | options))


def with_head(model: Any) -> None:
    """The class ties T5's head whatever its config says; version 1.1 has one of its own."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())


def translated(length: int, of_target: int, target_mask: bool = False) -> dict[str, np.ndarray]:
    """A source and a target in two rows; the second source is shorter, and the second target with `target_mask`."""
    mask = np.array([[1] * length, [1] * (length - 6) + [0] * 6])
    inputs = {"input_ids": ids(2, length), "attention_mask": mask, "decoder_input_ids": ids(2, of_target)}
    masks = {"decoder_attention_mask": np.array([[1] * of_target, [1] * (of_target - 2) + [0] * 2])}
    return inputs | (masks if target_mask else {})


def xlm(**options: Any) -> Any:
    sizes = {"vocab_size": V, "emb_dim": 24, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 19}
    return transformers.XLMConfig(**(sizes | {"n_langs": 3, "use_lang_emb": True} | options))


def spoken(batch: int, length: int) -> dict[str, np.ndarray]:
    """Two sentences of different languages in a row, whose positions begin again; later rows end with padding."""
    indices = np.arange(length)[None] + np.zeros((batch, 1), np.int64)
    first = 5 + np.arange(batch)[:, None]
    mask = (indices < length - 3 * np.arange(batch)[:, None]).astype(np.int64)
    positions = np.where(indices < first, indices, indices - first)
    return {"input_ids": ids(batch, length), "attention_mask": mask, "position_ids": positions} | {
        "langs": np.where(indices < first, 2, 1)
    }


def pairs(batch: int, length: int) -> dict[str, np.ndarray]:
    """Rows with 0, 1, 2, ... positions of padding after the text, of three token types."""
    positions = np.arange(length)[None]
    mask = (positions < length - np.arange(batch)[:, None]).astype(np.int64)
    kinds = np.minimum(positions * 3 // length + np.zeros((batch, 1), np.int64), 2)
    return {"input_ids": ids(batch, length), "attention_mask": mask, "token_type_ids": kinds}


def choices(batch: int, each: int, length: int) -> dict[str, np.ndarray]:
    """Examples of several texts with their pairs' types and padding."""
    rows = pairs(batch * each, length) | {"token_type_ids": np.zeros((batch * each, length), np.int64)}
    return {name: x.reshape(batch, each, length) for name, x in rows.items()}


def shorter(length: int) -> dict[str, np.ndarray]:
    """Two rows, the second shorter."""
    mask = np.array([[1] * length, [1] * (length - 7) + [0] * 7])
    return {"input_ids": ids(2, length), "attention_mask": mask}


def parakeet(encoder: dict[str, Any] | None = None, **options: Any) -> Any:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    subsampling = {"subsampling_factor": 4, "subsampling_conv_channels": 7, "num_mel_bins": 20, "conv_kernel_size": 5}
    tokens = {"vocab_size": V, "pad_token_id": V - 1}
    return transformers.ParakeetCTCConfig(encoder_config=sizes | subsampling | (encoder or {}), **(tokens | options))


def heard(*lengths: int, bins: int = 20) -> dict[str, np.ndarray]:
    """Frames of features of examples of these lengths, whose padding is not zero."""
    features = np.random.default_rng(2).normal(size=(len(lengths), max(lengths), bins)).astype(np.float32)
    return {"input_features": features, "attention_mask": prefixes(*lengths)}


def wav2vec2_conformer(**options: Any) -> Any:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    convolutions = {"conv_dim": [5, 7], "conv_kernel": [7, 4], "conv_stride": [5, 2], "feat_extract_norm": "layer"}
    more = {"vocab_size": V, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    published = {"conv_bias": True, "hidden_act": "swish", "conv_depthwise_kernel_size": 5}
    return transformers.Wav2Vec2ConformerConfig(**(sizes | convolutions | more | published | options))


def samples(*lengths: int) -> dict[str, np.ndarray]:
    """Samples of utterances of these lengths, whose padding is not zero."""
    values = np.random.default_rng(2).normal(size=(len(lengths), max(lengths))).astype(np.float32)
    return {"input_values": values, "attention_mask": prefixes(*lengths)}


def speech(config: Any, **options: Any) -> Any:
    """The config of an encoder of audio and a decoder, whose sizes all differ."""
    encoder = {"encoder_layers": 3, "encoder_ffn_dim": 33, "encoder_attention_heads": 4}
    decoder = {"decoder_layers": 2, "decoder_ffn_dim": 31, "decoder_attention_heads": 3}
    tokens = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    return config(**({"vocab_size": V, "d_model": 24} | encoder | decoder | tokens | options))


def speech2text(**options: Any) -> Any:
    sizes = {"input_feat_per_channel": 20, "conv_channels": 14}
    return speech(transformers.Speech2TextConfig, **(sizes | options))


def whisper(**options: Any) -> Any:
    sizes = {"num_mel_bins": 20, "max_source_positions": 13, "max_target_positions": 19}
    return speech(transformers.WhisperConfig, **(sizes | options))


def window(frames: int, bins: int = 20) -> dict[str, np.ndarray]:
    """Frames of features of two examples, frequencies first."""
    return {"input_features": np.random.default_rng(2).normal(size=(2, bins, frames)).astype(np.float32)}


def written(length: int) -> dict[str, np.ndarray]:
    """The tokens of two texts; the second is shorter."""
    return {f"decoder_{name}": x for name, x in padded(2, length).items()}


def prefixes(*lengths: int) -> np.ndarray:
    """A mask of rows of these lengths."""
    return (np.arange(max(lengths))[None] < np.asarray(lengths)[:, None]).astype(np.int64)


DISENTANGLED: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
V3 = {"position_buckets": 6, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
# At these lengths some of the six frequencies are low, some high, and some between.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 3.0,
    "original_max_position_embeddings": 16,
}
NOISE = {"noise": np.random.default_rng(4).uniform(size=(2, 25)).astype(np.float32)}
OBLONG = vit(image_size=(15, 10), num_channels=1, hidden_act="gelu_new", num_labels=7, layer_norm_eps=1e-3)

BOTH = ("logits", "encoder_last_hidden_state")
PAIRED = ("logits_per_image", "logits_per_text", "image_embeds", "text_embeds")

CASES = {
    "gpt2": Case("GPT2LMHeadModel", gpt2(), {"input_ids": ids(2, 7)}, ("logits",)),
    "gpt2-padded": Case(
        "GPT2LMHeadModel",
        gpt2(n_inner=13, activation_function="relu", layer_norm_epsilon=1e-3),
        {"input_ids": ids(3, 9), **left_padded(3, 9)},
        ("logits",),
    ),
    "gpt2-bare": Case("GPT2Model", gpt2(), {"input_ids": ids(1, 5)}, ("last_hidden_state",)),
    "llama": Case("LlamaForCausalLM", llama(), {"input_ids": ids(2, 7)}, ("logits",)),
    "llama-grouped-padded": Case(
        "LlamaForCausalLM",
        llama(
            num_key_value_heads=2,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 123.0},
            rms_norm_eps=1e-3,
        ),
        {"input_ids": ids(3, 9), **left_padded(3, 9)},
        ("logits",),
    ),
    "llama-head-size-biases": Case(
        "LlamaForCausalLM",
        llama(head_dim=10, num_key_value_heads=1, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
        {"input_ids": ids(1, 5)},
        ("logits",),
    ),
    "llama-linear": Case(
        "LlamaForCausalLM",
        llama(rope_parameters={"rope_type": "linear", "rope_theta": 99.0, "factor": 3.0}),
        {"input_ids": ids(2, 17)},
        ("logits",),
    ),
    "llama3": Case(
        "LlamaForCausalLM",
        llama(rope_parameters=LLAMA3, num_key_value_heads=1, head_dim=12),
        {"input_ids": ids(3, 25), **left_padded(3, 25)},
        ("logits",),
    ),
    "qwen2": Case("Qwen2ForCausalLM", qwen(transformers.Qwen2Config), {"input_ids": ids(2, 7)}, ("logits",)),
    "qwen3": Case(
        "Qwen3ForCausalLM",
        qwen(transformers.Qwen3Config, head_dim=10, tie_word_embeddings=True),
        {"input_ids": ids(3, 9), **left_padded(3, 9)},
        ("logits",),
    ),
    "gpt_neo": Case("GPTNeoForCausalLM", gpt_neo(), {"input_ids": ids(2, 17)}, ("logits",)),
    "gpt_neo-padded": Case(
        "GPTNeoForCausalLM",
        gpt_neo(attention_types=[[["local", "global", "global"], 1]], num_layers=3, layer_norm_epsilon=1e-3),
        {"input_ids": ids(3, 13), **left_padded(3, 13)},
        ("logits",),
    ),
    "gpt_neo-bare": Case(
        "GPTNeoModel",
        gpt_neo(attention_types=[[["local"], 2]], num_layers=2),
        {"input_ids": ids(1, 9)},
        ("last_hidden_state",),
    ),
    "roformer": Case("RoFormerForMaskedLM", roformer(), pairs(3, 17), ("logits",)),
    "roformer-narrow": Case("RoFormerForMaskedLM", roformer(embedding_size=10), shorter(9), ("logits",)),
    "roformer-classifier": Case(
        "RoFormerForSequenceClassification", roformer(num_labels=5, hidden_act="relu"), pairs(2, 9), ("logits",)
    ),
    "roformer-tokens": Case("RoFormerForTokenClassification", roformer(num_labels=4), pairs(2, 9), ("logits",)),
    "roformer-spans": Case("RoFormerForQuestionAnswering", roformer(), pairs(2, 9), ("start_logits", "end_logits")),
    "roformer-bare": Case("RoFormerModel", roformer(), pairs(2, 9), ("last_hidden_state",)),
    "bert": Case("BertForPreTraining", bert(), pairs(3, 9), ("prediction_logits", "seq_relationship_logits")),
    "bert-masked": Case(
        "BertForMaskedLM", bert(hidden_act="relu", layer_norm_eps=1e-3), {"input_ids": ids(2, 13)}, ("logits",)
    ),
    "bert-classifier": Case(
        "BertForSequenceClassification",
        bert(num_labels=5),
        {**pairs(2, 7), "position_ids": np.arange(7)[None] + np.array([[0], [4]])},
        ("logits",),
    ),
    "bert-number": Case("BertForSequenceClassification", bert(num_labels=1), pairs(2, 7), ("logits",)),
    "bert-tokens": Case("BertForTokenClassification", bert(num_labels=4), pairs(2, 7), ("logits",)),
    "bert-spans": Case("BertForQuestionAnswering", bert(), pairs(1, 7), ("start_logits", "end_logits")),
    "bert-choices": Case("BertForMultipleChoice", bert(), choices(2, 3, 7), ("logits",)),
    "bert-bare": Case("BertModel", bert(), pairs(3, 9), ("last_hidden_state", "pooler_output")),
    "roberta": Case("RobertaForMaskedLM", roberta(), padded(3, 13), ("logits",)),
    # The padding's token inside a text, and a padding of another id.
    "roberta-unmasked": Case("RobertaForMaskedLM", roberta(), {"input_ids": ids(3, 13)}, ("logits",)),
    "roberta-other-padding": Case(
        "RobertaForMaskedLM", roberta(pad_token_id=4, type_vocab_size=3), pairs(2, 7), ("logits",)
    ),
    "roberta-classifier": Case("RobertaForSequenceClassification", roberta(num_labels=5), padded(2, 9), ("logits",)),
    "roberta-spans": Case(
        "RobertaForQuestionAnswering",
        roberta(),
        {"input_ids": ids(2, 7), "position_ids": np.arange(7)[None] + np.array([[2], [4]])},
        ("start_logits", "end_logits"),
    ),
    "roberta-bare": Case("RobertaModel", roberta(), padded(2, 9), ("last_hidden_state", "pooler_output")),
    "xlm-roberta": Case("XLMRobertaForMaskedLM", roberta(transformers.XLMRobertaConfig), padded(2, 9), ("logits",)),
    "distilbert": Case(
        "DistilBertForMaskedLM", distilbert(), {k: x for k, x in pairs(3, 9).items() if "type" not in k}, ("logits",)
    ),
    "distilbert-classifier": Case(
        "DistilBertForSequenceClassification", distilbert(num_labels=5), {"input_ids": ids(2, 7)}, ("logits",)
    ),
    "distilbert-choices": Case(
        "DistilBertForMultipleChoice",
        distilbert(),
        {k: x for k, x in choices(2, 3, 7).items() if "type" not in k},
        ("logits",),
    ),
    "distilbert-bare": Case("DistilBertModel", distilbert(), {"input_ids": ids(2, 7)}, ("last_hidden_state",)),
    "albert": Case("AlbertForPreTraining", albert(), pairs(3, 9), ("prediction_logits", "sop_logits")),
    "albert-groups": Case(
        "AlbertForMaskedLM", albert(num_hidden_groups=3, layer_norm_eps=1e-3), {"input_ids": ids(2, 9)}, ("logits",)
    ),
    "albert-tokens": Case("AlbertForTokenClassification", albert(num_labels=4), pairs(2, 7), ("logits",)),
    "albert-bare": Case("AlbertModel", albert(), pairs(3, 9), ("last_hidden_state", "pooler_output")),
    "deberta": Case("DebertaForMaskedLM", encoder("Deberta", **DISENTANGLED), shorter(17), ("logits",)),
    "deberta-long": Case(
        "DebertaModel",
        encoder("Deberta", **(DISENTANGLED | {"max_relative_positions": 5, "type_vocab_size": 3})),
        pairs(3, 17),
        ("last_hidden_state",),
    ),
    "deberta-v3": Case("DebertaV2ForMaskedLM", encoder("DebertaV2", **DISENTANGLED, **V3), shorter(17), ("logits",)),
    "deberta-v2-spans": Case(
        "DebertaV2ForQuestionAnswering",
        encoder("DebertaV2", **DISENTANGLED),
        shorter(17),
        ("start_logits", "end_logits"),
    ),
    "deberta-classifier": Case(
        "DebertaForSequenceClassification",
        encoder("Deberta", **DISENTANGLED, num_labels=5, pooler_hidden_act="tanh"),
        shorter(9),
        ("logits",),
    ),
    "deberta-v2-classifier": Case(
        "DebertaV2ForSequenceClassification",
        encoder("DebertaV2", **DISENTANGLED, num_labels=5),
        shorter(9),
        ("logits",),
    ),
    "deberta-v2-choices": Case(
        "DebertaV2ForMultipleChoice", encoder("DebertaV2", **DISENTANGLED, **V3), choices(2, 3, 7), ("logits",)
    ),
    "electra": Case(
        "ElectraForPreTraining", encoder("Electra", embedding_size=10, type_vocab_size=3), pairs(3, 17), ("logits",)
    ),
    "electra-generator": Case("ElectraForMaskedLM", encoder("Electra", embedding_size=10), shorter(17), ("logits",)),
    "electra-equal-widths": Case(
        "ElectraForPreTraining", encoder("Electra", embedding_size=24), shorter(9), ("logits",)
    ),
    "electra-classifier": Case(
        "ElectraForSequenceClassification", encoder("Electra", embedding_size=24, num_labels=5), shorter(9), ("logits",)
    ),
    "electra-tokens": Case(
        "ElectraForTokenClassification", encoder("Electra", embedding_size=10, num_labels=5), shorter(9), ("logits",)
    ),
    "electra-bare": Case("ElectraModel", encoder("Electra", embedding_size=30), shorter(9), ("last_hidden_state",)),
    "marian": Case("MarianMTModel", marian(), translated(17, 11), BOTH),
    "marian-bias": Case("MarianMTModel", marian(), translated(17, 11, True), BOTH, change=with_bias),
    "marian-two-sizes": Case(
        "MarianMTModel", marian(encoder_attention_heads=4, encoder_ffn_dim=20), translated(17, 11), BOTH
    ),
    "marian-two-vocabularies": Case(
        "MarianMTModel",
        marian(
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=V + 6,
            scale_embedding=False,
            activation_function="swish",
            decoder_layers=2,
        ),
        translated(17, 11),
        BOTH,
    ),
    "marian-untied": Case(
        "MarianMTModel",
        marian(share_encoder_decoder_embeddings=False, tie_word_embeddings=False),
        translated(17, 11),
        BOTH,
    ),
    "t5": Case("T5ForConditionalGeneration", t5(), translated(41, 37), BOTH),
    "t5-v1_1": Case(
        "T5ForConditionalGeneration",
        t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=None, layer_norm_epsilon=1e-3),
        translated(41, 37, True),
        BOTH,
        change=with_head,
    ),
    "t5-tied": Case(
        "T5ForConditionalGeneration",
        t5(feed_forward_proj="gated-silu", tie_word_embeddings=False, d_kv=8),
        translated(41, 37),
        BOTH,
    ),
    "vit": Case("ViTForImageClassification", vit(), {"pixel_values": image(vit())}, ("logits",)),
    "vit-oblong": Case("ViTForImageClassification", OBLONG, {"pixel_values": image(OBLONG)}, ("logits",)),
    "vit-bare": Case("ViTModel", vit(), {"pixel_values": image(vit())}, ("last_hidden_state", "pooler_output")),
    "vit-qkv-bias": Case("ViTForImageClassification", vit(qkv_bias=False), {"pixel_values": image(vit())}, ("logits",)),
    "mae-qkv-bias": Case(
        "ViTMAEForPreTraining",
        mae(qkv_bias=False),
        {"pixel_values": image(mae()), **NOISE},
        ("logits", "loss"),
    ),
    "mae": Case(
        "ViTMAEForPreTraining",
        mae(),
        {"pixel_values": image(mae()), **NOISE},
        ("logits", "loss", "mask", "ids_restore"),
    ),
    "mae-normalised": Case(
        "ViTMAEForPreTraining",
        mae(norm_pix_loss=True, mask_ratio=0.6, num_channels=1, decoder_intermediate_size=36),
        {"pixel_values": image(mae(num_channels=1)), **NOISE},
        ("logits", "loss", "mask", "ids_restore"),
        {"norm_pix_loss": True, "mask_ratio": 0.6},
    ),
    "mae-fixed": Case(
        "ViTMAEForPreTraining", mae(), {"pixel_values": image(mae()), **NOISE}, ("logits", "loss"), fixed=True
    ),
    "mae-bare": Case(
        "ViTMAEModel",
        mae(),
        {"pixel_values": image(mae()), **NOISE},
        ("last_hidden_state", "mask", "ids_restore"),
        fixed=True,
    ),
    "ast": Case("ASTForAudioClassification", ast(), {"input_values": spectrogram(ast())}, ("logits",)),
    "ast-bare": Case(
        "ASTModel",
        ast(patch_size=7, frequency_stride=7, time_stride=7, qkv_bias=False, layer_norm_eps=1e-3, hidden_act="relu"),
        {"input_values": spectrogram(ast())},
        ("last_hidden_state", "pooler_output"),
    ),
    "swin": Case("SwinForImageClassification", swin(), {"pixel_values": image(swin())}, ("logits",)),
    "swin-padded": Case(  # windows and merging pad their grids
        "SwinForImageClassification",
        swin(image_size=40, window_size=4, num_channels=1, qkv_bias=False, mlp_ratio=3.0, hidden_act="relu"),
        {"pixel_values": image(swin(image_size=40, num_channels=1))},
        ("logits",),
    ),
    "swin-single-layers": Case(  # none of which shifts its windows
        "SwinForImageClassification", swin(depths=[1, 1]), {"pixel_values": image(swin())}, ("logits",)
    ),
    "swin-bare": Case("SwinModel", swin(), {"pixel_values": image(swin())}, ("pooler_output",)),
    "convnext": Case("ConvNextForImageClassification", convnext(), {"pixel_values": image(convnext())}, ("logits",)),
    "convnext-bare": Case(
        "ConvNextModel",
        convnext(num_channels=1, hidden_act="relu", layer_norm_eps=1e-3),
        {"pixel_values": image(convnext(num_channels=1))},
        ("pooler_output",),
    ),
    "poolformer": Case(
        "PoolFormerForImageClassification",
        poolformer(),
        {"pixel_values": image(convnext(image_size=45))},
        ("logits",),
    ),
    "poolformer-other": Case(
        "PoolFormerForImageClassification",
        poolformer(pool_size=5, mlp_ratio=3.0, use_layer_scale=False, num_channels=1, hidden_act="relu"),
        {"pixel_values": image(convnext(num_channels=1))},
        ("logits",),
    ),
    "cvt": Case("CvtForImageClassification", cvt(), {"pixel_values": image(convnext(image_size=45))}, ("logits",)),
    "cvt-other": Case(
        "CvtForImageClassification",
        cvt(
            num_channels=1,
            kernel_qkv=[5] * 3,
            padding_q=[2] * 3,
            padding_kv=[2] * 3,
            stride_kv=[1] * 3,
            qkv_bias=[False] * 3,
            mlp_ratio=[3.0] * 3,
            patch_stride=[2, 3, 3],
        ),
        {"pixel_values": image(convnext(num_channels=1))},
        ("logits",),
    ),
    "bit": Case(
        "BitForImageClassification", bit(), {"pixel_values": image(convnext(image_size=[45, 40]))}, ("logits",)
    ),
    "bit-bare": Case(
        "BitModel", bit(num_channels=1), {"pixel_values": image(convnext(num_channels=1))}, ("pooler_output",)
    ),
    "resnet": Case(
        "ResNetForImageClassification", resnet(), {"pixel_values": image(convnext(image_size=[45, 40]))}, ("logits",)
    ),
    "resnet-bare": Case(
        "ResNetModel", resnet(num_channels=1), {"pixel_values": image(convnext(num_channels=1))}, ("pooler_output",)
    ),
    "detr": Case("DetrForObjectDetection", detr(), scenes(detr()), ("logits", "pred_boxes")),
    "detr-two-sizes": Case(
        "DetrForObjectDetection",
        detr(encoder_attention_heads=4, encoder_ffn_dim=20),
        scenes(detr()),
        ("logits", "pred_boxes"),
    ),
    "detr-learned": Case(
        "DetrForObjectDetection",
        detr(encoder_layers=2, position_embedding_type="learned", activation_function="gelu"),
        {"pixel_values": scenes(detr())["pixel_values"]},
        ("logits", "pred_boxes"),
    ),
    "llava": Case("LlavaForConditionalGeneration", llava(), pictured(llava(), "titttttt", "____ttit"), ("logits",)),
    # Two images in the first text, none in the second; features of two layers.
    "llava-several-images": Case(
        "LlavaForConditionalGeneration",
        llava(vision_feature_layer=[-2, 1], projector_hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True),
        pictured(llava(), "titit", "ttttttttttt", "__titttt"),
        ("logits",),
    ),
    "llava-without-images": Case(
        "LlavaForConditionalGeneration",
        llava(vision_feature_layer=4, multimodal_projector_bias=False),
        {"input_ids": ids(2, 7)},
        ("logits",),
    ),
    "clip": Case("CLIPModel", clip({}, {}), {"pixel_values": image(clip_vision()), **captions(8, 5)}, PAIRED),
    "clip-other": Case(
        "CLIPModel",
        clip({"hidden_act": "gelu", "num_channels": 1}, {"hidden_act": "gelu", "layer_norm_eps": 1e-3}),
        {"pixel_values": image(clip_vision(num_channels=1), 3), "input_ids": captions(3, 8, 6)["input_ids"]},
        PAIRED,
    ),
    "clip-vision": Case(
        "CLIPVisionModel",
        clip_vision(),
        {"pixel_values": image(clip_vision())},
        ("last_hidden_state", "pooler_output"),
    ),
    "clip-vision-projected": Case(
        "CLIPVisionModelWithProjection",
        clip_vision(layer_norm_eps=1e-3),
        {"pixel_values": image(clip_vision())},
        ("last_hidden_state", "image_embeds"),
    ),
    "clip-text": Case("CLIPTextModel", clip_text(), captions(8, 4), ("last_hidden_state", "pooler_output")),
    "clip-text-projected": Case(
        "CLIPTextModelWithProjection", clip_text(), captions(2, 8), ("last_hidden_state", "text_embeds")
    ),
    "siglip": Case(
        "SiglipModel",
        siglip({}, {}),
        {"pixel_values": image(siglip_vision()), "input_ids": captions(10, 5, length=11)["input_ids"]},
        PAIRED,
    ),
    "siglip-vision": Case(
        "SiglipVisionModel",
        siglip_vision(num_channels=1, hidden_act="gelu"),
        {"pixel_values": image(siglip_vision(num_channels=1))},
        ("last_hidden_state", "pooler_output"),
    ),
    "siglip-vision-bare": Case(
        "SiglipVisionModel",
        siglip_vision(vision_use_head=False),
        {"pixel_values": image(siglip_vision())},
        ("last_hidden_state",),
    ),
    "siglip-text": Case(
        "SiglipTextModel",
        siglip_text(projection_size=14, layer_norm_eps=1e-3),
        {"input_ids": captions(8, 4)["input_ids"]},
        ("last_hidden_state", "pooler_output"),
    ),
    "sam": Case(
        "SamModel",
        sam(),
        {"pixel_values": image(sam().vision_config)} | clicks([1, 0, 1], [0, 1, -10]),
        ("pred_masks", "iou_scores"),
    ),
    "sam-boxes": Case(
        "SamModel",
        sam(depth=3, image=72, global_attn_indexes=[1], qkv_bias=False, num_channels=1),
        {
            "pixel_values": image(sam(image=72, num_channels=1).vision_config),
            "input_boxes": np.random.default_rng(5).uniform(0, 72, (2, 2, 4)).astype(np.float32),
            "input_masks": np.random.default_rng(6).normal(size=(2, 1, 36, 36)).astype(np.float32),
        }
        | clicks([1], [0], image=72),
        ("pred_masks", "iou_scores"),
        {},
    ),
    "parakeet": Case("ParakeetForCTC", parakeet(), heard(45, 30), ("logits",), output_mask=prefixes(12, 8)),
    "parakeet-other": Case(
        "ParakeetForCTC",
        parakeet(
            {
                "subsampling_factor": 8,
                "num_mel_bins": 24,
                "scale_input": False,
                "hidden_act": "relu",
                "attention_bias": False,
                "convolution_bias": False,
            }
        ),
        heard(45, 30, bins=24),
        ("logits",),
        output_mask=prefixes(6, 4),
    ),
    "speech2text": Case(
        "Speech2TextForConditionalGeneration",
        speech2text(),
        heard(37, 23) | written(9),
        BOTH,
        output_mask=prefixes(10, 6),
    ),
    "speech2text-other": Case(
        "Speech2TextForConditionalGeneration",
        speech2text(
            conv_kernel_sizes=[3, 3, 3],
            num_conv_layers=3,
            scale_embedding=False,
            activation_function="gelu",
            encoder_layers=2,
        ),
        heard(37, 23) | written(9),
        BOTH,
        output_mask=prefixes(5, 3),
    ),
    "whisper": Case("WhisperForConditionalGeneration", whisper(), window(26) | written(9), BOTH),
    "wav2vec2_conformer": Case(
        "Wav2Vec2ConformerForCTC",
        wav2vec2_conformer(),
        samples(199, 131),
        ("logits",),
        output_mask=prefixes(18, 11),
        unread="pos_conv_embed|masked_spec_embed",
    ),
    "wav2vec2_conformer-rotary": Case(
        "Wav2Vec2ConformerForCTC",
        wav2vec2_conformer(
            position_embeddings_type="rotary", rotary_embedding_base=50, conv_bias=False, hidden_act="gelu"
        ),
        samples(199, 131),
        ("logits",),
        output_mask=prefixes(18, 11),
        unread="pos_conv_embed|masked_spec_embed",
    ),
    "xlm": Case("XLMWithLMHeadModel", xlm(), spoken(2, 17), ("logits",)),
    "xlm-no-languages": Case(
        "XLMWithLMHeadModel",
        xlm(use_lang_emb=False, gelu_activation=False, layer_norm_eps=1e-3),
        {name: x for name, x in spoken(2, 17).items() if name != "langs"},
        ("logits",),
    ),
    "xlm-classifier": Case("XLMForSequenceClassification", xlm(num_labels=4, n_langs=1), shorter(9), ("logits",)),
    "xlm-tokens": Case("XLMForTokenClassification", xlm(num_labels=4), spoken(2, 9), ("logits",)),
    "xlm-spans": Case("XLMForQuestionAnsweringSimple", xlm(), spoken(2, 9), ("start_logits", "end_logits")),
    "xlm-bare": Case("XLMModel", xlm(), spoken(2, 9), ("last_hidden_state",)),
    "llama-bare": Case("LlamaModel", llama(), {"input_ids": ids(1, 5)}, ("last_hidden_state",)),
}


def random(case: Case) -> Any:
    """The reference's model with random weights, none of them zero or one, except for constants."""
    model = getattr(transformers, case.architecture)(case.config).eval()
    if case.fixed:  # the sines that the reference's checkpoints have; its constructor alone leaves zeros
        for part in (*model.parameters(), *model.modules()):
            part._is_hf_initialized = False
        embeddings = getattr(model, "vit", model).embeddings
        embeddings.initialize_weights()
        if hasattr(model, "decoder"):
            model.decoder.initialize_weights(embeddings.patch_embeddings.num_patches)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        case.change(model)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.1 + 0.3 * torch.randn(parameter.shape, generator=generator))
        for module in model.modules():
            buffers = dict(module.named_buffers(recurse=False))
            if "running_var" not in buffers:
                continue
            for name in sorted(buffers.keys() & {"weight", "bias", "running_mean"}):  # as DETR has them
                buffers[name].copy_(0.2 * torch.randn(buffers[name].shape, generator=generator))
            variance = buffers["running_var"]
            variance.copy_(0.5 + torch.rand(variance.shape, generator=generator))
    return model


def reference(model: Any, case: Case) -> dict[str, np.ndarray]:
    with torch.no_grad():
        output = model(**{k: torch.from_numpy(v) for k, v in case.inputs.items()}, return_dict=True)
    return {name: output[name].numpy() for name in case.outputs}


def same(ours: dict[str, Any], theirs: dict[str, np.ndarray], case: Case) -> None:
    """Compares each output at positions that are not padding: padding attends to padding here, to the text there."""
    masks = [case.inputs[name] for name in ("attention_mask", "decoder_attention_mask") if name in case.inputs]
    masks += [] if case.output_mask is None else [case.output_mask]
    for name, want in theirs.items():
        mask = next((mask for mask in masks if mask.shape == want.shape[:2]), None)
        got = np.asarray(ours[name])
        assert got.shape == want.shape and np.isfinite(got).all(), name
        if mask is not None:
            got, want = got[mask > 0], want[mask > 0]
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got / scale, want / scale, atol=1e-4, rtol=0, err_msg=name)


@per_family("case", lambda case: describe_architecture(case.architecture), seconds=1.5, cover=False, budget=12)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_outputs_agree_both_ways(case, tmp_path):
    model = random(case)
    want = reference(model, case)
    model.save_pretrained(tmp_path / "theirs")
    ours, variables = huggingface.load(tmp_path / "theirs")
    assert isinstance(getattr(ours, "positions", None), Sinusoidal2D) == case.fixed
    call = jax.jit(lambda weights, given: huggingface.forward(ours, weights, given | case.settings))
    outputs = call(variables, case.inputs)
    family = next(family for family in FAMILIES if case.architecture in family.architectures)
    assert set(outputs) <= set(family.outputs)
    same(outputs, want, case)
    huggingface.save(ours, variables, tmp_path / "ours", case.settings)
    again, info = getattr(transformers, case.architecture).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    same(reference(again.eval(), case), want, case)
    before, after = (
        {name: x for name, x in module.state_dict().items() if not re.search(case.unread, name)}
        for module in (model, again)
    )
    assert set(before) == set(after)
    for name, tensor in before.items():
        computed = case.config.model_type in ("vit_mae", "whisper")  # here in float32
        fixed = computed and "pos" in name and "decoder.embed_positions" not in name
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-5 if fixed else 0, msg=name)


@pytest.mark.parametrize("end", [20, 2])
def test_clip_pools_texts_at_the_token_that_a_config_names(end, tmp_path):
    """At the first one that ends a text, or, with 2 as in old files, at the first of the largest; with padding before
    a text too."""
    config = clip({}, {"eos_token_id": end})
    inputs = captions(8, 4, 6) | {"pixel_values": image(clip_vision(), 3)}
    inputs["input_ids"][:, 3] = inputs["input_ids"][1, 4] = inputs["input_ids"][2, 6] = 20
    inputs["attention_mask"][2, :2] = 0
    case = Case("CLIPModel", config, inputs, PAIRED)
    model = random(case)
    want = reference(model, case)
    model.save_pretrained(tmp_path / "theirs")
    ours, variables = huggingface.load(tmp_path / "theirs")
    outputs = huggingface.forward(ours, variables, inputs | {"eos_token_id": end})
    for name in PAIRED:
        np.testing.assert_allclose(outputs[name], want[name], atol=1e-5)
    other = huggingface.forward(ours, variables, inputs | {"eos_token_id": 22 - end})
    assert np.abs(other["text_embeds"] - want["text_embeds"]).max() > 0.01
    kept = json.loads((tmp_path / "theirs" / "config.json").read_text())
    huggingface.save(ours, variables, tmp_path / "ours", kept)
    again = reference(transformers.CLIPModel.from_pretrained(tmp_path / "ours").eval(), case)
    for name in PAIRED:
        np.testing.assert_allclose(again[name], want[name], atol=1e-5)
