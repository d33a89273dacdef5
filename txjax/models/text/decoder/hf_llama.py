"""Llama (Touvron et al. 2023): `LlamaForCausalLM`, and `LlamaModel`, which gets a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Rule, linear, norm, projections
from txjax.interop.huggingface.shared.decoder_family import DecoderFamily
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.decoder.decoder import Decoder, llama
from txjax.nn import Attention, GatedMLP, LinearScaling, Llama3Scaling, RMSNorm, Rotary, RotaryScaling, Tied
from txjax.nn.attention.mixer import PROJECTIONS

# Their `rope_type`: our class, and their names of its fields.
_SCALINGS: dict[str, tuple[type[RotaryScaling], dict[str, str]]] = {
    "linear": (LinearScaling, {"factor": "factor"}),
    "llama3": (
        Llama3Scaling,
        {
            "factor": "factor",
            "low": "low_freq_factor",
            "high": "high_freq_factor",
            "length": "original_max_position_embeddings",
        },
    ),
}


class Llama(DecoderFamily):
    model_type = "llama"
    general = True
    architectures = ("LlamaForCausalLM", "LlamaModel")
    txjax_model = "`llama(...)`"
    positions = Rotary
    table = "model.embed_tokens.weight"
    buffers = r"rotary_emb\.inv_freq$"
    ties = False

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Decoder:
        heads = options.size("num_attention_heads", 32)
        width = options.size("hidden_size", 4096)
        size = options.size("head_dim", width // heads)
        return llama(
            vocab=options.size("vocab_size", 32000),
            width=width,
            depth=options.size("num_hidden_layers", 32),
            heads=heads,
            kv_heads=options.size("num_key_value_heads", heads),
            positions=_rotary(options),
            norm=RMSNorm(eps=options.get("rms_norm_eps", 1e-6)),
            mixer=Attention(
                head_size=None if size * heads == width else size,
                use_bias=options.get("attention_bias", False),
                dropout=options.get("attention_dropout", 0.0),
            ),
            mlp=GatedMLP(
                hidden=options.size("intermediate_size", 11008),
                activation=options.activation("hidden_act", "silu"),
                use_bias=options.get("mlp_bias", False),
            ),
            head=self.head(options),
        )

    def config(self, model: Decoder, flat: Flat) -> dict[str, Any]:
        assert isinstance(model.positions, Rotary)
        return {
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads or model.heads,
            "head_dim": only_attention(model).head_size or model.width // model.heads,
            **_rope(model.positions),
            "rms_norm_eps": model.norm.eps,
            "attention_bias": any(map(only_attention(model).has_bias, PROJECTIONS)),
            "attention_dropout": only_attention(model).dropout,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "mlp_bias": model.mlp.use_bias,
            "tie_word_embeddings": isinstance(model.head, Tied),
        }

    def rules(self, model: Decoder) -> list[Rule]:
        here = "model.layers.{}"
        ours = "layers/block"
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"}
        mlp = [
            rule
            for name in ("gate", "up", "down")
            for rule in linear(f"{here}.mlp.{name}_proj", f"{ours}/mlp/{name}", bias=model.mlp.use_bias)
        ]
        return [
            Rule(self.table, ("embed/embedding",), SAME),
            *norm(f"{here}.input_layernorm", f"{ours}/norm_attention", bias=False),
            *projections(f"{here}.self_attn", f"{ours}/attention", names, only_attention(model)),
            *norm(f"{here}.post_attention_layernorm", f"{ours}/norm_mlp", bias=False),
            *mlp,
            *norm("model.norm", "norm_final", bias=False),
            *self.head_rules(model),
        ]


def _rotary(options: Options) -> Rotary:
    """Theta and scaling: in `rope_parameters` since transformers 5, else in `rope_scaling` and `rope_theta`."""
    rope: dict[str, Any] = {}
    keys = [key for key in ("rope_parameters", "rope_scaling") if options.values.get(key)]
    for key in keys:
        values: dict[str, Any] = options.get(key, {})
        kind = values.get("rope_type", values.get("type", "default"))
        part = values.get("partial_rotary_factor", 1.0)
        if kind not in ("default", *_SCALINGS) or part != 1.0:
            expected = f"rotary angles of all channels, with rope_type default or {' or '.join(_SCALINGS)}"
            raise options.refuse(key, expected, values)
        rope |= values | {"rope_type": kind}
    inside = Options(rope, options.file, f"{keys[-1]}." if keys else "")
    theta = inside.get("rope_theta", options.get("rope_theta", 10000.0))
    if rope.get("rope_type", "default") == "default":
        return Rotary(theta=theta)
    scaling, names = _SCALINGS[rope["rope_type"]]
    for name in names.values():
        if not isinstance(rope.get(name), int | float):
            raise options.refuse(key, f"a number as {name}", rope)
        inside.get(name, 1.0)  # raises for one that is not finite
    return Rotary(theta=theta, scaling=scaling(**{ours: rope[theirs] for ours, theirs in names.items()}))


def _rope(positions: Rotary) -> dict[str, Any]:
    """The same as entries of config.json, for all versions of transformers."""
    theta = {"rope_theta": positions.theta}
    for kind, (scaling, names) in _SCALINGS.items():
        if type(positions.scaling) is scaling:
            scaled = {"rope_type": kind} | {theirs: getattr(positions.scaling, name) for name, theirs in names.items()}
            return theta | {"rope_parameters": scaled | theta, "rope_scaling": scaled | theta}
    return theta | {"rope_parameters": {"rope_type": "default"} | theta}
