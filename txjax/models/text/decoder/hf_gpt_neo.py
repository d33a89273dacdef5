"""GPT-Neo (Black et al. 2021): `GPTNeoForCausalLM`, and `GPTNeoModel`, which has the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txjax.errors import UserError
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Rule, linear, norm, projections
from txjax.interop.huggingface.shared.decoder_family import DecoderFamily
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.decoder.decoder import Decoder, gpt_neo
from txjax.nn import MLP, Attention, LayerNorm, Learned, Tied

_TYPES = "attention_types"
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


class GPTNeo(DecoderFamily):
    """Decoders whose scores have the factor 1, of global and local layers."""

    model_type = "gpt_neo"
    architectures = ("GPTNeoForCausalLM", "GPTNeoModel")
    txjax_model = "`gpt_neo(...)`"
    positions = Learned
    table = "transformer.wte.weight"
    buffers = r"\.attn\.attention\.(masked_)?bias$"
    ties = True

    def matches(self, model: Any) -> bool:
        return super().matches(model) and all(getattr(mixer, "scale", None) == 1 for mixer in model.mixers())

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Decoder:
        width = options.size("hidden_size", 2048)
        depth = options.size("num_layers", 24)
        window = options.size("window_size", 256)
        dropout = options.get("attention_dropout", 0.0)
        windows = {"global": None, "local": window}
        attentions = [
            Attention(scale=1.0, biases=("out",), window=windows[kind], dropout=dropout)
            for kind in _period(_kinds(options, depth, tuple(windows)))
        ]
        return gpt_neo(
            vocab=options.size("vocab_size", 50257),
            width=width,
            depth=depth,
            heads=options.size("num_heads", 16),
            max_length=options.size("max_position_embeddings", 2048),
            norm=LayerNorm(eps=options.get("layer_norm_epsilon", 1e-5)),
            mixer=attentions[0] if len(attentions) == 1 else tuple(attentions),
            mlp=MLP(
                hidden=options.size("intermediate_size", 4 * width),
                activation=options.activation("activation_function", "gelu_new"),
            ),
            dropout=options.shared_rate("resid_dropout", "embed_dropout", 0.0),
            head=self.head(options),
        )

    def config(self, model: Decoder, flat: Flat) -> dict[str, Any]:
        assert isinstance(model.positions, Learned)
        attentions = _attentions(model)
        kinds = ["global" if attention.window is None else "local" for attention in attentions]
        windows = sorted({attention.window for attention in attentions if attention.window is not None})
        if len(windows) > 1:
            raise UserError("config.model.mixer", "one window in all local layers", windows)
        return {
            "architectures": ["GPTNeoForCausalLM"],
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_layers": model.depth,
            "num_heads": model.heads,
            "max_position_embeddings": model.positions.max_length,
            "intermediate_size": model.mlp.hidden_size(model.width),
            _TYPES: [[kinds, model.depth // len(kinds)]],
            "attention_layers": kinds * (model.depth // len(kinds)),
            "window_size": windows[0] if windows else 256,
            "activation_function": their_activation(model.mlp.activation),
            "layer_norm_epsilon": model.norm.eps,
            "resid_dropout": model.dropout,
            "embed_dropout": model.dropout,
            "attention_dropout": attentions[0].dropout,
            "tie_word_embeddings": isinstance(model.head, Tied),
        }

    def rules(self, model: Decoder) -> list[Rule]:
        here = "transformer.h.{}"
        ours = "layers/block"
        return [
            Rule(self.table, ("embed/embedding",), SAME),
            Rule("transformer.wpe.weight", ("positions/table/embedding",), SAME),
            *norm(f"{here}.ln_1", f"{ours}/norm_attention"),
            *projections(f"{here}.attn.attention", f"{ours}/attention", _PROJECTIONS, _attentions(model)[0]),
            *norm(f"{here}.ln_2", f"{ours}/norm_mlp"),
            *linear(f"{here}.mlp.c_fc", f"{ours}/mlp/up"),
            *linear(f"{here}.mlp.c_proj", f"{ours}/mlp/down"),
            *norm("transformer.ln_f", "norm_final"),
            *self.head_rules(model),
        ]


def _attentions(model: Decoder) -> list[Attention]:
    return [mixer for mixer in model.mixers() if isinstance(mixer, Attention)]


def _kinds(options: Options, depth: int, known: Sequence[str]) -> list[str]:
    """The kind of every layer."""
    types: list[Any] = options.get(_TYPES, [[list(known), depth // 2]])
    try:
        kinds = [str(kind) for turn, times in types for kind in list(turn) * times]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != depth or not set(kinds) <= set(known):
        raise options.refuse(
            _TYPES, f"{' or '.join(known)} for each of {depth} layers, as [[[kind, ...], times]]", types
        )
    return kinds


def _period(kinds: list[str]) -> list[str]:
    """The shortest beginning of which all are repetitions."""
    divisors = [n for n in range(1, len(kinds) + 1) if len(kinds) % n == 0]
    return next(kinds[:n] for n in divisors if kinds[:n] * (len(kinds) // n) == kinds)
