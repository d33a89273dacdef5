"""MaskGIT's Transformer: a BERT without token types and with the tanh form of GELU, of codes, classes and a mask."""

import numpy as np
import pytest

from txjax.interop import huggingface
from txjax.models.vision.mask_git import mask_git
from txjax.models.vision.mask_git.card import CARD
from txjax.models.vision.mask_git.card import mask_git as published_mask_git
from txjax.types import UserError

from helpers.arrays import forward, shapes

K, C, N = 11, 5, 12


def test_it_has_a_token_for_each_code_and_class_and_a_mask() -> None:
    model = mask_git(K, C, N, width=8, depth=1, heads=2)
    params = shapes(model, np.zeros((1, N + 1), np.int32))["params"]
    assert set(params) == {"embed", "positions", "norm_embed", "layers", "transform", "norm_transform", "head"}
    assert params["embed"]["embedding"].shape == (K + C + 1, 8)
    with pytest.raises(UserError, match="config.model.positions.max_length: expected at least the input's length of"):
        shapes(model, np.zeros((1, N + 2), np.int32))
    with pytest.raises(UserError, match=r"^size: expected one of 256, 512, got '257'; did you mean 256"):
        published_mask_git("257")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
def test_it_equals_the_reference(tmp_path) -> None:
    """Its BERT with `gelu_new`, as MaskGIT's code has it, and with a table of types that is zero."""
    torch, transformers = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    more = {"max_position_embeddings": N + 1, "type_vocab_size": 1, "hidden_act": "gelu_new"}
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=K + C + 1, **sizes, **more)).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.3)
        theirs.bert.embeddings.token_type_embeddings.weight.zero_()
    theirs.save_pretrained(tmp_path)
    _, found = huggingface.load(tmp_path)
    own = {name: tree for name, tree in found["params"].items() if name != "embed_types"}
    tokens = np.random.default_rng(0).integers(0, K + C + 1, (2, N + 1)).astype(np.int32)
    logits, _ = forward(mask_git(K, C, N, width=24, depth=2, heads=3))({"params": own}, tokens)
    wanted = theirs(input_ids=torch.tensor(tokens, dtype=torch.long)).logits.detach().numpy()
    np.testing.assert_allclose(logits, wanted, atol=1e-4)


def test_mask_git_by_its_shapes() -> None:
    """BERT's layers, its head with a bias for each token, and no token types (Chang et al. 2022, 4.1)."""
    d, vocab = 768, 1024 + 1000 + 1
    for size, tokens in (("256", 257), ("512", 1025)):
        total = vocab * d + tokens * d + 2 * d + 24 * (12 * d * d + 13 * d) + d * d + d + 2 * d + vocab
        assert total == CARD.presets[0].sizes[size].parameters
