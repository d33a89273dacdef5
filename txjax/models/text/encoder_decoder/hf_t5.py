"""T5 (Raffel et al. 2020), versions 1.0 and 1.1: `T5ForConditionalGeneration`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, linear, norm, projections
from txjax.interop.huggingface.shared.sequence_to_sequence import EncoderDecoderFamily, attentions, encoder_depth
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder, t5
from txjax.nn import MLP, Attention, CrossAttention, GatedMLP, Head, RMSNorm, T5Relative, Tied, TiedScaled, Untied

_ATTENTIONS = {"attention": "SelfAttention", "cross": "EncDecAttention"}
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "out": "o"}
_GATED = "gated-"
# T5.1.1's files call the tanh form so; the other one needs its second name.
_WRITTEN = {"gelu_new": "gelu", "gelu": "gelu_python"}


class T5(EncoderDecoderFamily):
    model_type = "t5"
    architectures = ("T5ForConditionalGeneration",)
    txjax_model = "`t5(...)`, `t5_v1_1(...)`"
    positions = T5Relative
    not_written = ("mixer.dropout", "cross.dropout")  # `dropout_rate` is one number for all
    unless_given = {"decoder_start_token_id": 0}  # the class has none, and needs one to generate

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> EncoderDecoder:
        options.require(is_encoder_decoder=True, is_decoder=False)
        heads = options.size("num_heads", 8)
        width = options.size("d_model", 512)
        size = options.size("d_kv", 64)
        rate = options.get("dropout_rate", 0.1)
        blocks = options.size("num_layers", 6)
        depth = options.size("num_decoder_layers", blocks)
        parts: dict[str, Any] = dict(
            head_size=None if size * heads == width else size, use_bias=False, scale=1.0, dropout=rate
        )
        return t5(
            vocab=options.size("vocab_size", 32128),
            width=width,
            depth=depth,
            encoder_depth=encoder_depth(options, "num_layers", depth, 6),
            heads=heads,
            positions=T5Relative(
                buckets=options.size("relative_attention_num_buckets", 32),
                max_distance=options.size("relative_attention_max_distance", 128),
            ),
            norm=RMSNorm(eps=options.get("layer_norm_epsilon", 1e-6)),
            mixer=Attention(**parts),
            cross=CrossAttention(**parts),
            mlp=_mlp(options, rate),
            dropout=rate,
            head=_head(options, tensors),
        )

    def config(self, model: EncoderDecoder, flat: Flat) -> dict[str, Any]:
        named = their_activation(model.mlp.activation)
        if isinstance(model.mlp, GatedMLP):
            named = _GATED + _WRITTEN.get(named, named)
        gated, activation = _projection(named)
        # The reference scales the head's input unless `tie_word_embeddings` is false. It ties the head all the same,
        # if the files have no `lm_head`.
        scaled = isinstance(model.head, TiedScaled)
        return {
            "architectures": ["T5ForConditionalGeneration"],
            "is_encoder_decoder": True,
            "vocab_size": model.vocab,
            "d_model": model.width,
            "d_kv": model.head_size(),
            "d_ff": model.mlp.hidden_size(model.width),
            "num_layers": model.encoder_depth or model.depth,
            "num_decoder_layers": model.depth,
            "num_heads": model.heads,
            "relative_attention_num_buckets": getattr(model.positions, "buckets", None),
            "relative_attention_max_distance": getattr(model.positions, "max_distance", None),
            "dropout_rate": model.dropout,
            "layer_norm_epsilon": model.norm.eps,
            "feed_forward_proj": named,
            "is_gated_act": gated,
            "dense_act_fn": activation,
            "tie_word_embeddings": scaled,
            "scale_decoder_outputs": scaled,
        }

    def names(self, options: Options) -> Names:
        copied = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
        copied += ["lm_head.weight"] if _scaled(options) else []
        unused = r"EncDecAttention\.relative_attention_bias\.weight$"  # in the first published files
        return Names(copies=dict.fromkeys(copied, "shared.weight"), buffers=unused)

    def rules(self, model: EncoderDecoder) -> list[Rule]:
        entries = [Rule("shared.weight", ("embed/embedding",), SAME)]
        gated = isinstance(model.mlp, GatedMLP)
        mlp = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
        for side, inside in attentions(model).items():
            here = f"{side}.block.{{}}.layer"
            ours = f"{side}/layers/block"
            for number, (name, attention) in enumerate(inside.items()):
                theirs = f"{here}.{number}.{_ATTENTIONS[name]}"
                entries += projections(theirs, f"{ours}/{name}", _PROJECTIONS, attention)
                entries += norm(f"{here}.{number}.layer_norm", f"{ours}/norm_{name}", bias=False)
            last = f"{here}.{len(inside)}"
            for name, theirs in mlp.items():
                entries += linear(f"{last}.DenseReluDense.{theirs}", f"{ours}/mlp/{name}", bias=model.mlp.use_bias)
            entries += norm(f"{last}.layer_norm", f"{ours}/norm_mlp", bias=False)
            entries += norm(f"{side}.final_layer_norm", f"{side}/norm_final", bias=False)
            # All layers of a stack have the table of its first one.
            table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            entries += [Rule(table, (f"{side}/positions/table",), SAME)]
        return entries + (linear("lm_head", "head/linear", bias=False) if isinstance(model.head, Untied) else [])


def _scaled(options: Options) -> bool:
    """Whether the head's input is divided by the root of the width.

    Files of transformers before 5 say so by `tie_word_embeddings`, which later ones always set.
    """
    return options.get("scale_decoder_outputs", options.get("tie_word_embeddings", True))


def _head(options: Options, tensors: Mapping[str, Tensor]) -> Head:
    if _scaled(options):
        return TiedScaled()
    return Untied() if "lm_head.weight" in tensors else Tied()


def _projection(named: str) -> tuple[bool, str]:
    """Whether a `feed_forward_proj` is gated, and the name of its activation."""
    gated = named.startswith(_GATED)
    name = named.removeprefix(_GATED)
    return gated, "gelu_new" if gated and name == "gelu" else name


def _mlp(options: Options, dropout: float) -> MLP:
    key = "feed_forward_proj"
    gated, name = _projection(options.get(key, "relu"))
    activation = options.with_values(options.values | {key: name}).activation(key, "relu")
    options.require(is_gated_act=gated, dense_act_fn=name)
    fields: dict[str, Any] = {"hidden": options.size("d_ff", 2048), "activation": activation, "use_bias": False}
    return (GatedMLP if gated else MLP)(**fields, dropout=dropout)
