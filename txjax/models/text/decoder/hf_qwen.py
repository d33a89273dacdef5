"""Qwen2 (Yang et al. 2024) and Qwen3 (Yang et al. 2025): Llama with biases, or with norms, of queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Rule, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.decoder.hf_llama import Llama
from txjax.nn import Attention, RMSNorm
from txjax.nn.attention.mixer import PROJECTIONS

BIASED = ("query", "key", "value")


class Qwen2(Llama):
    """Decoders whose queries, keys and values have biases."""

    model_type = "qwen2"
    architectures = ("Qwen2ForCausalLM", "Qwen2Model")
    txjax_model = '`llama(...)`, `mixer=Attention(biases=("query", "key", "value"))`'

    def matches(self, model: Any) -> bool:
        return super().matches(model) and all(
            isinstance(mixer, Attention) and tuple(filter(mixer.has_bias, PROJECTIONS)) == BIASED
            for mixer in model.mixers()
        )

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Decoder:
        full_attention(options)
        model = super().model(options, tensors)
        return model.clone(mixer=only_attention(model).clone(use_bias=True, biases=BIASED))

    def config(self, model: Decoder, flat: Flat) -> dict[str, Any]:
        config = super().config(model, flat)
        return {k: v for k, v in config.items() if k not in ("attention_bias", "mlp_bias")} | {
            "architectures": [self.architectures[0]],
            "use_sliding_window": False,
        }


class Qwen3(Llama):
    """Decoders with an RMSNorm of each head's queries and keys."""

    model_type = "qwen3"
    architectures = ("Qwen3ForCausalLM", "Qwen3Model")
    txjax_model = "`llama(...)`, `mixer=Attention(use_bias=False, qk_norm=RMSNorm())`"

    def matches(self, model: Any) -> bool:
        return super().matches(model) and all(
            isinstance(mixer, Attention) and isinstance(mixer.qk_norm, RMSNorm) for mixer in model.mixers()
        )

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Decoder:
        full_attention(options)
        model = super().model(options.with_values({"head_dim": 128} | options.values), tensors)
        qk_norm = RMSNorm(eps=model.norm.eps)
        return model.clone(mixer=only_attention(model).clone(qk_norm=qk_norm))

    def config(self, model: Decoder, flat: Flat) -> dict[str, Any]:
        config = super().config(model, flat)
        del config["mlp_bias"]
        return config | {"architectures": [self.architectures[0]], "use_sliding_window": False}

    def rules(self, model: Decoder) -> list[Rule]:
        here = "model.layers.{}.self_attn"
        ours = "layers/block/attention"
        names = {"q_norm": "norm_query", "k_norm": "norm_key"}
        norms = [norm(f"{here}.{theirs}", f"{ours}/{name}", bias=False) for theirs, name in names.items()]
        return super().rules(model) + sum(norms, [])


def full_attention(options: Options) -> None:
    """Raises UserError for layers with a window."""
    options.require(use_sliding_window=False)
    kinds: list[Any] = options.get("layer_types", [])
    if any(kind != "full_attention" for kind in kinds):
        raise options.refuse("layer_types", "full_attention in all layers", kinds)
