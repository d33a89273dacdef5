"""Attention maps equal the reference's `output_attentions`, with its weights in our model."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.interop import huggingface
from txjax.report.inspection.attention_maps import attention_maps

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
]

V, SIZES = 37, {"hidden_size": 24, "intermediate_size": 31, "num_hidden_layers": 3, "num_attention_heads": 3}
TOKENS = np.random.default_rng(1).integers(2, V, (2, 9)).astype(np.int32)
REAL = (np.arange(9)[None] < [[9], [6]]).astype(np.int32)
TARGET = TOKENS[:, :7][::-1].copy()
IMAGE = np.random.default_rng(2).normal(size=(2, 10, 15, 3)).astype(np.float32)

SELF, CROSS = "layers/block/attention", "layers/block/cross"
TEXT = {"tokens": TOKENS, "segments": REAL}
THEIR_TEXT = {"input_ids": TOKENS, "attention_mask": REAL}
PAIR = {"source_tokens": TOKENS, "source_segments": REAL, "tokens": TARGET}
THEIR_PAIR = THEIR_TEXT | {"decoder_input_ids": TARGET}
OF_PAIR = {
    "encoder_attentions": f"encoder/{SELF}",
    "decoder_attentions": f"decoder/{SELF}",
    "cross_attentions": f"decoder/{CROSS}",
}


def t5() -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "d_kv": 10, "d_ff": 31, "num_layers": 2, "num_decoder_layers": 3}
    more = {"num_heads": 3, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16}
    return transformers.T5Config(**sizes, **more, decoder_start_token_id=0)


def marian() -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "pad_token_id": 0}
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIDE.items()}
    more = {"eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    return transformers.MarianConfig(**sizes, **sides, **more, activation_function="relu", scale_embedding=True)


SIDE = {"ffn_dim": 31, "attention_heads": 3}
GPT2 = transformers.GPT2Config(vocab_size=V, n_embd=24, n_layer=3, n_head=3, n_positions=11)
CASES = {
    "bert": (
        "BertModel",
        transformers.BertConfig(vocab_size=V, **SIZES, max_position_embeddings=13),
        THEIR_TEXT,
        TEXT,
        {"attentions": SELF},
    ),
    "gpt2": ("GPT2LMHeadModel", GPT2, {"input_ids": TOKENS}, {"tokens": TOKENS}, {"attentions": SELF}),
    "vit": (
        "ViTForImageClassification",
        transformers.ViTConfig(**SIZES, image_size=(10, 15), patch_size=5),
        {"pixel_values": IMAGE.transpose(0, 3, 1, 2).copy()},
        {"image": IMAGE},
        {"attentions": SELF},
    ),
    "t5": ("T5ForConditionalGeneration", t5(), THEIR_PAIR, PAIR, OF_PAIR),
    "marian": ("MarianMTModel", marian(), THEIR_PAIR, PAIR, OF_PAIR),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_maps_equal_the_references(case: Any, tmp_path: Any) -> None:
    architecture, config, their_inputs, inputs, paths = case
    config._attn_implementation = "eager"
    model = getattr(transformers, architecture)(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        output = model(**{k: torch.from_numpy(v) for k, v in their_inputs.items()}, output_attentions=True)
    model.save_pretrained(tmp_path)
    ours, variables = huggingface.load(tmp_path)
    given = {name: jnp.asarray(x) for name, x in inputs.items()}
    found = jax.jit(lambda v, x: attention_maps(ours, v, x))(variables, given)
    assert set(found) == set(paths.values())
    for name, path in paths.items():
        want, got = np.stack([each.numpy() for each in output[name]]), np.asarray(found[path])
        assert got.shape == want.shape and np.ptp(want) > 0.1
        if want.shape[-2] == 9 and "segments" in inputs or path.startswith("encoder"):  # padding sees padding here
            real = np.broadcast_to(REAL[None, :, None, :, None] > 0, want.shape)
            got, want = got[real], want[real]
        np.testing.assert_allclose(got, want, atol=1e-5)
