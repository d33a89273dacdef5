"""GPT-2 (Radford et al. 2019): `GPT2LMHeadModel`, and `GPT2Model`, which has the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Rule, in_out, linear, norm
from txjax.interop.huggingface.shared.decoder_family import DecoderFamily
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.decoder.decoder import Decoder, gpt
from txjax.nn import MLP, Attention, LayerNorm, Learned, Tied


class GPT2(DecoderFamily):
    model_type = "gpt2"
    general = True
    architectures = ("GPT2LMHeadModel", "GPT2Model")
    txjax_model = "`gpt(...)`"
    positions = Learned
    table = "transformer.wte.weight"
    buffers = r"\.attn\.(masked_)?bias$"
    ties = True

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Decoder:
        options.require(
            scale_attn_weights=True,
            scale_attn_by_inverse_layer_idx=False,
            add_cross_attention=False,
        )
        width = options.size("n_embd", 768)
        return gpt(
            vocab=options.size("vocab_size", 50257),
            width=width,
            depth=options.size("n_layer", 12),
            heads=options.size("n_head", 12),
            max_length=options.size("n_positions", options.size("n_ctx", 1024)),
            norm=LayerNorm(eps=options.get("layer_norm_epsilon", 1e-5)),
            mixer=Attention(dropout=options.get("attn_pdrop", 0.1)),
            mlp=MLP(
                hidden=options.size("n_inner", 4 * width),
                activation=options.activation("activation_function", "gelu_new"),
            ),
            dropout=options.shared_rate("resid_pdrop", "embd_pdrop", 0.1),
            head=self.head(options),
        )

    def config(self, model: Decoder, flat: Flat) -> dict[str, Any]:
        assert isinstance(model.positions, Learned)
        return {
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": model.vocab,
            "n_embd": model.width,
            "n_layer": model.depth,
            "n_head": model.heads,
            "n_positions": model.positions.max_length,
            "n_inner": model.mlp.hidden_size(model.width),
            "activation_function": their_activation(model.mlp.activation),
            "layer_norm_epsilon": model.norm.eps,
            "resid_pdrop": model.dropout,
            "embd_pdrop": model.dropout,
            "attn_pdrop": only_attention(model).dropout,
            "tie_word_embeddings": isinstance(model.head, Tied),
        }

    def rules(self, model: Decoder) -> list[Rule]:
        here = "transformer.h.{}"
        ours = "layers/block"
        projections = [f"{ours}/attention/{name}" for name in ("query", "key", "value")]
        return [
            Rule(self.table, ("embed/embedding",), SAME),
            Rule("transformer.wpe.weight", ("positions/table/embedding",), SAME),
            *norm(f"{here}.ln_1", f"{ours}/norm_attention"),
            Rule(f"{here}.attn.c_attn.weight", tuple(f"{name}/kernel" for name in projections), in_out()),
            Rule(f"{here}.attn.c_attn.bias", tuple(f"{name}/bias" for name in projections)),
            *linear(f"{here}.attn.c_proj", f"{ours}/attention/out", in_out(2)),
            *norm(f"{here}.ln_2", f"{ours}/norm_mlp"),
            *linear(f"{here}.mlp.c_fc", f"{ours}/mlp/up", in_out()),
            *linear(f"{here}.mlp.c_proj", f"{ours}/mlp/down", in_out()),
            *norm("transformer.ln_f", "norm_final"),
            *self.head_rules(model),
        ]
