"""Parts of LXMERT and of VisualBERT equal ours: the text's layers, the layers of regions, layers of both in one stream.

What differs by design, and has no counterpart here:

- LXMERT takes the mean of two norms, of a region's features and of its box; ViLBERT has one norm of their sum. So its
  encoder of regions is compared as the mean of two of ours, each without the other's half.
- LXMERT's cross-attention is shared by both directions and followed by self-attention, without a feed-forward network
  between them; a connection of ViLBERT has its own parameters in each direction, and its own feed-forward networks.
- VisualBERT adds its own tables of types and positions to projected regions, all of which have position 0, so that
  their order means nothing; its layers are compared on what its embeddings give.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from txjax.interop.huggingface.rules import SAME, Rule, Tensor, gather, layer, norm
from txjax.models.multimodal.vilbert import GivenRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.models.transformer_stack import TransformerStack, stack_fields
from txjax.nn import MLP, Attention, Learned, Mask, NoPositions, StackInputs

from helpers.arrays import call, shapes

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim(
        "Models and objectives", "layers of LXMERT and of VisualBERT equal those of `Bert` and `ViLBERT`"
    ),
]

V, WIDTH, HEADS, HIDDEN, FEATURES = 37, 24, 3, 31, 9
SIZES = {"vocab_size": V, "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": HIDDEN}
RNG = np.random.default_rng(1)
TOKENS = RNG.integers(2, V, (2, 7)).astype(np.int32)
WORDS = (np.arange(7)[None] < [[7], [4]]).astype(np.int32)
TYPES = RNG.integers(0, 2, (2, 7)).astype(np.int32)
REGIONS = RNG.normal(size=(2, 5, FEATURES)).astype(np.float32)
IS_REGION = (np.arange(5)[None] < [[3], [5]]).astype(np.int32)
BOXES = RNG.uniform(size=(2, 5, 4)).astype(np.float32)
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def reference(architecture: str, config: Any) -> Any:
    """A model of the library whose parameters are normal, without dropout."""
    model = getattr(transformers, architecture)(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(0.3 * torch.randn(x.shape, generator=generator))
    return model


@pytest.fixture(scope="module")
def lxmert() -> Any:
    depths = {"l_layers": 3, "x_layers": 1, "r_layers": 2}
    config = transformers.LxmertConfig(**SIZES, **depths, visual_feat_dim=FEATURES, max_position_embeddings=11)
    return reference("LxmertModel", config)


@pytest.fixture(scope="module")
def visual_bert() -> Any:
    more = {"num_hidden_layers": 3, "visual_embedding_dim": FEATURES, "max_position_embeddings": 11}
    return reference("VisualBertModel", transformers.VisualBertConfig(**SIZES, **more))


def bert(depth: int) -> Bert:
    positions = Learned(max_length=11)
    return Bert(vocab=V, width=WIDTH, depth=depth, heads=HEADS, mlp=MLP(hidden=HIDDEN), positions=positions, head=None)


def parameters(module: Any, rules: list[Rule], prefix: str, theirs: Any, **inputs: Any) -> dict[str, Any]:
    """Our variables, of the tensors whose names begin with a prefix."""
    tensors = {
        name.removeprefix(prefix): Tensor(tuple(x.shape), x.numpy)
        for name, x in theirs.state_dict().items()
        if name.startswith(prefix) and not name.endswith("position_ids")
    }
    needed = {path: x.shape for path, x in flatten_dict(shapes(module, **inputs)["params"], sep="/").items()}
    names = {rule.name(number) for rule in rules for number in range(9)} & set(tensors)
    return {"params": unflatten_dict(gather(rules, needed, {name: tensors[name] for name in names}), sep="/")}


def through_layers(theirs: Any, prefix: str, depth: int, x: np.ndarray, real: np.ndarray) -> np.ndarray:
    """What our stack of layers of `Bert` makes of embedded inputs."""
    stack = TransformerStack(**stack_fields(bert(depth)) | {"positions": NoPositions()})
    indices = jnp.zeros(x.shape[:2], jnp.int32)
    inputs = StackInputs(indices, indices, Mask.within(jnp.asarray(real)))
    rules = layer(f"{prefix}.{{}}", "layers/block", "self", NORMS, Attention())
    variables = parameters(stack, rules, "", theirs, x=x, inputs=inputs)
    return np.asarray(call(jax.jit(lambda variables, x: stack.apply(variables, x, inputs)), variables, x))


def assert_equal(ours: Any, theirs: Any, real: np.ndarray) -> None:
    """What is no padding is equal within 1e-5."""
    np.testing.assert_allclose(np.asarray(ours)[real > 0], theirs.detach().numpy()[real > 0], rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def lxmert_output(lxmert: Any) -> Any:
    inputs = {
        "input_ids": TOKENS,
        "attention_mask": WORDS,
        "token_type_ids": TYPES,
        "visual_feats": REGIONS,
        "visual_pos": BOXES,
        "visual_attention_mask": IS_REGION,
    }
    tensors = {name: torch.tensor(x).long() if x.dtype == np.int32 else torch.tensor(x) for name, x in inputs.items()}
    return lxmert(**tensors, output_hidden_states=True)


def test_the_language_encoder_of_lxmert_is_a_bert(lxmert: Any, lxmert_output: Any) -> None:
    """From the tokens to the layer before the first that reads regions."""
    model = bert(3)
    rules = [
        Rule("embeddings.word_embeddings.weight", ("embed/embedding",), SAME),
        Rule("embeddings.position_embeddings.weight", ("positions/table/embedding",), SAME),
        Rule("embeddings.token_type_embeddings.weight", ("embed_types/embedding",), SAME),
        *norm("embeddings.LayerNorm", "norm_embed"),
        *layer("encoder.layer.{}", "layers/block", "self", NORMS, Attention()),
    ]
    inputs = {"tokens": TOKENS, "segments": WORDS, "types": TYPES}
    variables = parameters(model, rules, "", lxmert, **inputs)
    encoded = call(jax.jit(model.apply), variables, **inputs)
    assert_equal(encoded.features, lxmert_output.language_hidden_states[2], WORDS)


def test_regions_of_lxmert_are_the_mean_of_two_embeddings(lxmert: Any) -> None:
    """Each as ViLBERT embeds a region, one of its features and one of its box; LXMERT's has the four corners alone."""
    encoder = lxmert.encoder.visn_fc
    x = embed(encoder.visn_fc, encoder.visn_layer_norm, REGIONS)
    y = embed(encoder.box_fc, encoder.box_layer_norm, BOXES)
    theirs = encoder(torch.tensor(REGIONS), torch.tensor(BOXES))
    assert_equal((x + y) / 2, theirs, np.ones((2, 5)))


class EmbeddedRegions(ViLBERT, kw_only=True):
    """The regions as they enter ViLBERT's stream of the image."""

    @nn.compact
    def __call__(self, features: Any, place_numbers: Any) -> Any:
        return self.embed_regions(features, place_numbers, train=False)


def embed(dense: Any, scale: Any, x: np.ndarray) -> Any:
    """Regions that `ViLBERT` embeds by their features alone."""
    model = EmbeddedRegions(text=bert(1), regions=GivenRegions(), width=WIDTH, depth=1, heads=HEADS)
    params = {
        "region_embed": {"kernel": dense.weight.detach().numpy().T, "bias": dense.bias.detach().numpy()},
        "place_embed": {"kernel": np.zeros((5, WIDTH), np.float32), "bias": np.zeros(WIDTH, np.float32)},
        "norm_regions": {"scale": scale.weight.detach().numpy(), "bias": scale.bias.detach().numpy()},
    }
    place_numbers = np.zeros((*x.shape[:2], 5), np.float32)
    return call(jax.jit(model.apply), {"params": params}, x, place_numbers)


def test_layers_of_regions_of_lxmert_are_those_of_a_bert(lxmert: Any, lxmert_output: Any) -> None:
    x = lxmert.encoder.visn_fc(torch.tensor(REGIONS), torch.tensor(BOXES)).detach().numpy()
    ours = through_layers(lxmert, "encoder.r_layers", 2, x, IS_REGION)
    assert_equal(ours, lxmert_output.vision_hidden_states[1], IS_REGION)


def test_layers_of_visual_bert_are_those_of_a_bert(visual_bert: Any) -> None:
    """On what its embeddings give for a text and the regions behind it."""
    ids, types, words = (torch.tensor(x).long() for x in (TOKENS, TYPES, WORDS))
    regions, is_region = torch.tensor(REGIONS), torch.tensor(IS_REGION).long()
    visual = {"visual_embeds": regions}
    x = visual_bert.embeddings(ids, types, **visual).detach().numpy()
    theirs = visual_bert(ids, words, types, **visual, visual_attention_mask=is_region).last_hidden_state
    real = np.concatenate([WORDS, IS_REGION], axis=1)
    assert_equal(through_layers(visual_bert, "encoder.layer", 3, x, real), theirs, real)
