"""Published checkpoints as their files are: what differs in names from the files that transformers writes today."""

from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Published(NamedTuple):
    """A published checkpoint, of which a case of `test_parity.CASES` has the class at small sizes.

    Attributes:
      case: the name of the case.
      renamed: patterns of today's names, and what the file has in their place; applied in turn.
      absent: a pattern of names (after renaming) that the file lacks.
      extra: further tensors of the file, by name; `{}` is the number of each layer.
      layers: the number of layers of these names.
      left_out: the modules that the warning names, and the number of their tensors.
      config: entries of its config.json that are not those of the case.
      reads: whether transformers reads this file; if not, outputs are those of the model that wrote it.
      compared: whether outputs are compared; they aren't if the class is read without its head.
    """

    case: str
    renamed: dict[str, str] = {}
    absent: str = r"(?!)"
    extra: dict[str, Shape] = {}
    layers: int = 2
    left_out: tuple[str, int] | None = None
    config: dict[str, Any] = {}
    reads: bool = True
    compared: bool = True


def pooler(module: str, width: int) -> dict[str, Shape]:
    """The tensors of a pooler."""
    return {f"{module}.weight": (width, width), f"{module}.bias": (width,)}


def masked(module: str, norm: str, width: int) -> dict[str, Shape]:
    """The tensors of a transform before a head."""
    return {**pooler(f"{module}.dense", width), f"{module}.{norm}.weight": (width,), f"{module}.{norm}.bias": (width,)}


V = 37  # tokens of all cases
OLD_NORMS = {r"LayerNorm\.weight$": "LayerNorm.gamma", r"LayerNorm\.bias$": "LayerNorm.beta"}
BERTS_IDS = {"bert.embeddings.position_ids": (1, 13)}
BERTS_HEADS = {
    "cls.predictions.bias": (V,),
    **masked("cls.predictions.transform", "LayerNorm", 20),
    "cls.seq_relationship.weight": (2, 20),
    "cls.seq_relationship.bias": (2,),
}
ROBERTAS_IDS = {"roberta.embeddings.position_ids": (1, 15)}
DEBERTAS_HEADS = {
    "lm_predictions.lm_head.bias": (V,),
    **masked("lm_predictions.lm_head", "LayerNorm", 24),
}


# The first files of CLIP have the sizes in `text_config_dict`, and an end token that is not the tokenizer's.
OLD_CLIP_TEXT = {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 27}
OLD_CLIP_TEXT |= {"vocab_size": V, "max_position_embeddings": 11, "eos_token_id": 2}


def timm_names() -> dict[str, str]:
    """The names of another library's backbone, which the files of DETR have."""
    at = "model.backbone.conv_encoder.model."
    renamed = {"embedder.embedder.convolution.": "conv1.", "embedder.embedder.normalization.": "bn1."}
    for stage in range(3):
        layer, there = rf"encoder.stages.{stage}.layers.(\d+).", rf"layer{stage + 1}.\1."
        renamed |= {f"{layer}shortcut.convolution.": f"{there}downsample.0."}
        renamed |= {f"{layer}shortcut.normalization.": f"{there}downsample.1."}
        for i in range(3):
            renamed |= {f"{layer}layer.{i}.convolution.": f"{there}conv{i + 1}."}
            renamed |= {f"{layer}layer.{i}.normalization.": f"{there}bn{i + 1}."}
    return {at + old: at + new for old, new in renamed.items()}


CHECKPOINTS = {
    "bert-base-uncased": Published(
        "bert",
        OLD_NORMS,
        extra=BERTS_IDS | {"cls.predictions.decoder.bias": (V,)},
        config={"architectures": ["BertForMaskedLM"]},
    ),
    "dslim/bert-base-NER": Published(
        "bert-tokens", extra=BERTS_IDS | pooler("bert.pooler.dense", 20), left_out=("bert.pooler.dense", 2)
    ),
    # Trained further from bert-base-uncased with all of its tensors.
    "a BERT of classes with its pretraining's heads": Published(
        "bert-classifier",
        OLD_NORMS,
        extra=BERTS_IDS | BERTS_HEADS,
        left_out=("cls.predictions, cls.seq_relationship", 7),
    ),
    "all-MiniLM-L6-v2": Published("bert-bare", extra={"embeddings.position_ids": (1, 13)}),
    "roberta-base": Published(
        "roberta", extra=ROBERTAS_IDS | pooler("roberta.pooler.dense", 20), left_out=("roberta.pooler.dense", 2)
    ),
    "distilroberta-base": Published(
        "roberta",
        absent=r"^lm_head\.decoder\.",
        extra=ROBERTAS_IDS | pooler("roberta.pooler.dense", 20),
        left_out=("roberta.pooler.dense", 2),
    ),
    "deepset/roberta-base-squad2": Published(
        "roberta-spans",
        extra=ROBERTAS_IDS | pooler("roberta.pooler.dense", 20),
        left_out=("roberta.pooler.dense", 2),
    ),
    "xlm-roberta-base": Published(
        "xlm-roberta", extra=ROBERTAS_IDS | pooler("roberta.pooler.dense", 20), left_out=("roberta.pooler.dense", 2)
    ),
    "distilbert-base-uncased": Published("distilbert"),
    "distilbert-base-uncased as its encoder": Published(
        "distilbert",
        left_out=("vocab_layer_norm, vocab_projector, vocab_transform", 5),
        config={"architectures": ["DistilBertModel"]},
        compared=False,
    ),
    "albert-base-v2": Published(
        "albert-groups",
        extra={"albert.embeddings.position_ids": (1, 15), **pooler("albert.pooler", 20)},
        left_out=("albert.pooler", 2),
    ),
    "google/electra-base-discriminator": Published(
        "electra-equal-widths", extra={"electra.embeddings.position_ids": (1, 40)}
    ),
    "google/electra-base-generator": Published("electra-generator", extra={"electra.embeddings.position_ids": (1, 40)}),
    "microsoft/deberta-base": Published(
        "deberta-long",
        {r"^": "deberta."},
        extra={
            "deberta.embeddings.position_ids": (1, 40),
            "deberta.embeddings.position_embeddings.weight": (40, 24),
            **DEBERTAS_HEADS,
        },
        left_out=("cls.predictions", 5),
        config={"architectures": None},
    ),
    "microsoft/mdeberta-v3-base": Published(
        "deberta-v2-spans",
        absent="^qa_outputs",
        extra={
            "deberta.embeddings.position_ids": (1, 40),
            "deberta.embeddings.word_embeddings._weight": (V, 24),
            **DEBERTAS_HEADS,
            **masked("mask_predictions", "LayerNorm", 24),
            **{"mask_predictions.classifier.weight": (1, 24), "mask_predictions.classifier.bias": (1,)},
        },
        left_out=("cls.predictions, mask_predictions", 11),
        config={"architectures": None},
        compared=False,
    ),
    "junnyu/roformer_chinese_base": Published("roformer"),
    "xlm-mlm-en-2048": Published("xlm-no-languages", extra={"transformer.position_ids": (1, 19)}),
    "gpt2": Published(
        "gpt2",
        {r"^transformer\.": ""},
        absent="^lm_head",
        extra={"h.{}.attn.bias": (1, 1, 11, 11), "h.{}.attn.masked_bias": ()},
        layers=3,
    ),
    "EleutherAI/gpt-neo-125m": Published(
        "gpt_neo",
        extra={
            "transformer.h.{}.attn.attention.bias": (1, 1, 19, 19),
            "transformer.h.{}.attn.attention.masked_bias": (),
            "lm_head.weight": (V, 24),
        },
        layers=4,
    ),
    "Llama-2-7b": Published("llama", extra={"model.layers.{}.self_attn.rotary_emb.inv_freq": (3,)}),
    "a Llama as its decoder": Published(
        "llama", left_out=("lm_head", 1), config={"architectures": ["LlamaModel"]}, compared=False
    ),
    "a Llama that is tied in config.json alone": Published("llama", config={"tie_word_embeddings": True}),
    "Qwen2.5-7B": Published("qwen2"),
    "Qwen3-0.6B": Published("qwen3", extra={"lm_head.weight": (V, 24)}),
    "t5-small": Published(
        "t5",
        absent="^lm_head",
        extra={
            "encoder.embed_tokens.weight": (V, 24),
            "decoder.embed_tokens.weight": (V, 24),
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": (8, 3),
        },
    ),
    "Helsinki-NLP/opus-mt-en-de": Published(
        "marian",
        extra={
            "model.encoder.embed_tokens.weight": (V, 24),
            "model.decoder.embed_tokens.weight": (V, 24),
            "model.encoder.embed_positions.weight": (1024, 24),
            "model.decoder.embed_positions.weight": (1024, 24),
            "lm_head.weight": (V, 24),
        },
    ),
    "google/vit-base-patch16-224": Published(
        "vit", extra=pooler("vit.pooler.dense", 20), left_out=("vit.pooler.dense", 2)
    ),
    "google/vit-base-patch16-224-in21k": Published("vit-bare"),
    "facebook/vit-mae-base": Published("mae-fixed"),
    "microsoft/swin-tiny-patch4-window7-224": Published(
        "swin", extra={"swin.encoder.layers.{}.blocks.0.attention.self.relative_position_index": (49, 49)}
    ),
    "a Swin as its encoder": Published(
        "swin", left_out=("classifier", 2), config={"architectures": ["SwinModel"]}, compared=False
    ),
    "facebook/convnext-tiny-224": Published("convnext"),
    "sail/poolformer_s12": Published("poolformer"),
    "microsoft/cvt-13": Published("cvt"),
    "google/bit-50": Published("bit"),
    "microsoft/resnet-50": Published("resnet"),
    "facebook/detr-resnet-50": Published(
        "detr",
        timm_names(),
        reads=False,
    ),
    "openai/clip-vit-base-patch32": Published(
        "clip",
        extra={f"{side}.embeddings.position_ids": (1, n) for side, n in (("text_model", 11), ("vision_model", 17))},
        config={"text_config": {"model_type": "clip_text_model"}, "text_config_dict": OLD_CLIP_TEXT},
    ),
    # As the towers are that were published alone, before version 5.
    "a CLIP's tower of images": Published(
        "clip-vision",
        {r"^": "vision_model."},
        extra={"vision_model.embeddings.position_ids": (1, 17), "visual_projection.weight": (10, 24)},
        left_out=("visual_projection", 1),
    ),
    "a CLIP's tower of texts": Published(
        "clip-text", {r"^": "text_model."}, extra={"text_model.embeddings.position_ids": (1, 11)}
    ),
    "llava-hf/llava-1.5-7b-hf": Published("llava", {r"^vision_tower\.": "vision_tower.vision_model."}),
    "google/siglip-base-patch16-224": Published("siglip"),
    "a SigLIP's tower of images": Published("siglip-vision", {r"^": "vision_model."}),
    "a SigLIP's tower of texts": Published("siglip-text", {r"^": "text_model."}),
    "facebook/sam-vit-base": Published("sam"),
    "facebook/s2t-small-librispeech-asr": Published("speech2text"),
    "openai/whisper-tiny": Published("whisper"),
    "MIT/ast-finetuned-audioset-10-10-0.4593": Published("ast"),
    "nvidia/parakeet-ctc-1.1b": Published("parakeet"),
    "facebook/wav2vec2-conformer-rel-pos-large-960h-ft": Published(
        "wav2vec2_conformer",
        {r"parametrizations\.weight\.original0$": "weight_g", r"parametrizations\.weight\.original1$": "weight_v"},
        left_out=("wav2vec2_conformer.encoder.pos_conv_embed, wav2vec2_conformer.masked_spec_embed", 3),
    ),
}
