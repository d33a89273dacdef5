"""Imported encoder-decoders write the reference's texts, with its scores; their positions are the reference's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Sampling
from txjax.interop import huggingface
from txjax.nn import Sinusoidal
from txjax.nn.positions.positions import t5_bucket

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim(
        "Transfer",
        "imported encoder-decoders, of audio too, write the reference's texts, greedy and by beams, with its scores "
        "(needs torch and transformers)",
    ),
]

V, S, NEW = 23, 11, 13
START, END = 0, 1
SOURCE = np.random.default_rng(0).integers(2, V, (4, S))
REAL = np.array([[1] * S, [1] * 7 + [0] * 4, [1] * S, [1] * 3 + [0] * 8])


def marian() -> Any:
    tokens = {"pad_token_id": START, "eos_token_id": END, "decoder_start_token_id": START, "forced_eos_token_id": None}
    layers = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 31))}
    heads = {f"{side}_attention_heads": 3 for side in ("encoder", "decoder")}
    sizes = {"vocab_size": V, "d_model": 24, "activation_function": "relu", "scale_embedding": True}
    # A tied head of random weights would repeat one token.
    untied = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    return transformers.MarianMTModel(transformers.MarianConfig(**sizes, **untied, **layers, **heads, **tokens))


def t5() -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "d_kv": 10, "d_ff": 31, "num_layers": 2, "num_heads": 3}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 16}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, **buckets, decoder_start_token_id=START, pad_token_id=START, eos_token_id=END)
    )


def speech_tokens() -> dict[str, Any]:
    """Sizes and tokens of models of speech. Padding is the end token: their positions don't count it."""
    layers = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 31))}
    heads = {f"{side}_attention_heads": 3 for side in ("encoder", "decoder")}
    tokens = {"pad_token_id": END, "eos_token_id": END, "bos_token_id": START, "decoder_start_token_id": START}
    return {"vocab_size": V, "d_model": 24, **layers, **heads, **tokens}


def speech2text() -> Any:
    sizes = {"input_feat_per_channel": BINS, "conv_channels": 14}
    return transformers.Speech2TextForConditionalGeneration(transformers.Speech2TextConfig(**speech_tokens(), **sizes))


def whisper() -> Any:
    sizes = {"num_mel_bins": BINS, "max_source_positions": 10, "max_target_positions": 27}
    config = transformers.WhisperConfig(**speech_tokens(), **sizes, begin_suppress_tokens=None)
    return transformers.WhisperForConditionalGeneration(config)


FRAMES, BINS = 20, 10
FEATURES = np.random.default_rng(1).normal(size=(4, FRAMES, BINS)).astype(np.float32)
HEARD = np.asarray([20, 13, 20, 9])
TEXT = {"input_ids": SOURCE, "attention_mask": REAL}, {"source_tokens": SOURCE, "source_segments": REAL}
# The source of each model, as it is there and here.
SOURCES = {
    marian: TEXT,
    t5: TEXT,
    speech2text: (
        {"input_features": FEATURES, "attention_mask": (np.arange(FRAMES) < HEARD[:, None]).astype(int)},
        {"features": FEATURES, "features_length": HEARD.astype(np.int32)},
    ),
    whisper: ({"input_features": FEATURES.swapaxes(1, 2).copy()}, {"features": FEATURES}),
}


@pytest.fixture(scope="module", params=SOURCES, ids=[model.__name__ for model in SOURCES])
def models(request, tmp_path_factory) -> tuple[Any, Any, Any, Any]:
    """Ours with random weights of the reference, the reference's `generate`, and the inputs of our first call."""
    theirs, (their_source, source) = request.param().eval(), SOURCES[request.param]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if parameter.requires_grad:
                drawn = torch.randn(parameter.shape, generator=generator)
                tied = "shared" in name or ("embed_tokens" in name and theirs.config.tie_word_embeddings)
                matrix = parameter.ndim == 2 and not tied
                scale = "norm" in name and name.endswith("weight")
                parameter.copy_((0.5 if matrix else 0.3) * drawn + float(scale))
    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    ours, variables = huggingface.load(folder)

    def generate(**settings: Any) -> Any:
        given = {name: torch.from_numpy(x) for name, x in their_source.items()}
        more = {"max_new_tokens": NEW, "do_sample": False, "return_dict_in_generate": True}
        # Not Whisper's own method, which cuts long recordings and forces tokens.
        return transformers.GenerationMixin.generate(theirs, **given, **more, **settings)

    inputs = {"tokens": np.full((len(SOURCE), 1), START, np.int32), **source}
    return ours, jax.tree.map(jnp.asarray, variables), generate, jax.tree.map(to_jax, inputs)


def to_jax(x: np.ndarray) -> jax.Array:
    return jnp.asarray(x, jnp.float32 if np.issubdtype(x.dtype, np.floating) else jnp.int32)


def filled(texts: Any) -> np.ndarray:
    """The reference's texts without the start token, with END after their ends, as here."""
    texts = texts[:, 1:].numpy()
    texts = np.pad(texts, ((0, 0), (0, NEW - texts.shape[1])), constant_values=END)
    return np.where(np.cumsum(texts == END, 1) > 0, END, texts)


def test_greedy_texts_and_beams_are_those_of_the_reference(models) -> None:
    ours, variables, generate, inputs = models
    size = 3

    @jax.jit
    def write(variables: Any, given: Any) -> Any:
        greedy = Sampling(temperature=0, end=(END,))(Cached(ours), variables, given, NEW, jax.random.key(0))
        beam = Beam(size=size, length_penalty=0.0, end=(END,))
        return greedy, beam.hypotheses(Cached(ours), variables, given, NEW)

    greedy, found = jax.device_get(write(variables, inputs))
    np.testing.assert_array_equal(greedy, filled(generate().sequences))
    assert len({tuple(text) for text in greedy.tolist()}) > 1 and (found.tokens == END).any()
    beams = {"num_beams": size, "num_return_sequences": size, "length_penalty": 0.0, "early_stopping": True}
    want = generate(**beams, output_scores=True)
    np.testing.assert_allclose(found.scores.reshape(-1), want.sequences_scores.numpy(), atol=1e-4, rtol=0)
    np.testing.assert_array_equal(found.tokens.reshape(-1, NEW), filled(want.sequences))


def test_sines_are_marians() -> None:
    theirs = transformers.models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding(50, 24).create_weight()
    positions = Sinusoidal(layout="halves")
    added = positions.apply({}, jnp.zeros((1, 50, 24)), jnp.arange(50)[None], method="add")
    np.testing.assert_allclose(added[0], theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 16), (20, 300)])
@pytest.mark.parametrize("direction", ["both", "past"])
def test_buckets_are_t5s_beyond_the_largest_distance(buckets: int, most: int, direction: str) -> None:
    theirs = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket
    distance = np.arange(-3 * most, 3 * most + 1)
    want = theirs(torch.from_numpy(distance), direction == "both", buckets, most)
    got = t5_bucket(jnp.asarray(distance, jnp.int32), buckets, most, direction)
    np.testing.assert_array_equal(got, want.numpy())
