"""ViLBERT equals mmf's own classes: both streams, the poolers and the three heads of pretraining, with padding.

`data/vilbert.npz` has their outputs for the parameters and inputs of this file. It is written by

    pip download --no-deps mmf==1.0.0rc10 && tar xzf mmf-1.0.0rc10.tar.gz
    PYTHONPATH=tests python tests/models/test_vilbert_parity.py mmf-1.0.0rc10/mmf/models/vilbert.py
"""

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from txjax.interop.huggingface.rules import SAME, Rule, gather, layer, linear, norm, projections, scatter
from txjax.models.multimodal.vilbert import GivenRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.nn import (
    MLP,
    Attention,
    CrossAttention,
    Learned,
    MaskedPairs,
    MaskedTokens,
    NextSentence,
    ProductPooler,
    RegionOutputs,
)

from helpers.arrays import call, dense, shapes

pytestmark = pytest.mark.claim(
    "Models and objectives", "ViLBERT equals the classes of mmf, from embeddings to the heads of pretraining"
)

FIXTURE = Path(__file__).parent / "data" / "vilbert.npz"
VOCAB = 53
DETECTOR = {"features": 9, "classes": 11}
TEXT_LAYERS = 4
WORDS = np.asarray([7, 4], np.int32)  # of each text that are not padding
REGIONS = np.asarray([3, 5], np.int32)


def model() -> ViLBERT:
    """Texts of 24 x 4 with 3 heads, images of 20 x 2 with 2 heads, and connections of width 28 with 4 heads."""
    text = dict(vocab=VOCAB, width=24, depth=2, heads=3, mlp=MLP(hidden=31), positions=Learned(max_length=40))
    pairs = MaskedTokens(next_sentence=NextSentence(ProductPooler(28)))
    return ViLBERT(
        text=Bert(**text, head=None),
        regions=GivenRegions(),
        width=20,
        depth=2,
        heads=2,
        mlp=MLP(hidden=27),
        cross=CrossAttention(head_size=7),
        cross_heads=4,
        head=MaskedPairs(pairs, RegionOutputs(DETECTOR["classes"])),
    )


def inputs() -> dict[str, np.ndarray]:
    """Two pairs; each has padding in one of the streams. What is padded has numbers, too."""
    rng = np.random.RandomState(1)
    corners = np.sort(rng.uniform(size=(2, 5, 2, 2)), axis=2).reshape(2, 5, 4)
    return {
        "tokens": rng.randint(0, VOCAB, (2, 7)).astype(np.int32),
        "segments": (np.arange(7) < WORDS[:, None]).astype(np.int32),
        "types": rng.randint(0, 2, (2, 7)).astype(np.int32),
        "regions": rng.normal(size=(2, 5, DETECTOR["features"])).astype(np.float32),
        "region_boxes": corners.astype(np.float32),
        "region_segments": (np.arange(5) < REGIONS[:, None]).astype(np.int32),
    }


def parameters() -> dict[str, np.ndarray]:
    """Ours by path: normal with deviation 0.3, around 1 for the scales of norms. RandomState never changes."""
    leaves = flatten_dict(shapes(model(), **inputs())["params"], sep="/")
    rng = np.random.RandomState(0)
    return {
        path: (path.endswith("scale") + 0.3 * rng.normal(size=leaves[path].shape)).astype(np.float32)
        for path in sorted(leaves)
    }


def rules() -> list[Rule]:
    """The names of mmf, and of the authors' files, of our arrays."""
    encoder = "bert.encoder"
    norms = ("attention.output.LayerNorm", "output.LayerNorm")
    entries = [
        Rule("bert.embeddings.word_embeddings.weight", ("text/embed/embedding",), SAME),
        Rule("bert.embeddings.position_embeddings.weight", ("text/positions/table/embedding",), SAME),
        Rule("bert.embeddings.token_type_embeddings.weight", ("text/embed_types/embedding",), SAME),
        *norm("bert.embeddings.LayerNorm", "text/norm_embed"),
        *linear("bert.v_embeddings.image_embeddings", "region_embed"),
        *linear("bert.v_embeddings.image_location_embeddings", "place_embed"),
        *norm("bert.v_embeddings.LayerNorm", "norm_regions"),
        *linear("bert.t_pooler.dense", "pooler_text"),
        *linear("bert.v_pooler.dense", "pooler_image"),
        *linear("cls.bi_seq_relationship", "next_sentence"),
        *linear("cls.predictions.transform.dense", "transform"),
        *norm("cls.predictions.transform.LayerNorm", "norm_transform"),
        Rule("cls.predictions.bias", ("head/bias",)),
        *linear("cls.imagePredictions.transform.dense", "regions/transform"),
        *norm("cls.imagePredictions.transform.LayerNorm", "regions/norm_transform"),
        *linear("cls.imagePredictions.decoder", "regions/head"),
        *layer(f"{encoder}.layer.{{}}", "text/layers/block", "self", norms, Attention()),
        *layer(f"{encoder}.v_layer.{{}}", "layers/block/layer/image", "self", norms, Attention()),
    ]
    later = layer(f"{encoder}.layer.{{}}", "layers/block/layer/text", "self", norms, Attention())
    entries += [rule._replace(first=TEXT_LAYERS - 2) for rule in later]
    for stream, (number, letter) in {"image": ("1", "v"), "text": ("2", "t")}.items():
        theirs, ours = f"{encoder}.c_layer.{{}}", f"layers/block/connection/{stream}"
        other = {"1": "2", "2": "1"}[number]
        reads = {"query": number, "key": other, "value": other}
        names = {name: f"biattention.{name}{of}" for name, of in reads.items()}
        entries += projections(theirs, f"{ours}/attention", names | {"out": f"biOutput.dense{number}"}, Attention())
        entries += norm(f"{theirs}.biOutput.LayerNorm{number}", f"{ours}/norm_attention")
        entries += linear(f"{theirs}.{letter}_intermediate.dense", f"{ours}/mlp/up")
        entries += linear(f"{theirs}.{letter}_output.dense", f"{ours}/mlp/down")
        entries += norm(f"{theirs}.{letter}_output.LayerNorm", f"{ours}/norm_mlp")
    return entries


def outputs(**changes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Logits of tokens, of pairs and of the regions' classes."""
    variables = {"params": unflatten_dict(parameters(), sep="/")}
    return call(jax.jit(lambda *args, **inputs: dense(model().apply(*args, **inputs))), variables, **inputs() | changes)


def test_names_and_layouts_go_both_ways() -> None:
    ours = parameters()
    back = gather(rules(), {path: x.shape for path, x in ours.items()}, scatter(rules(), ours))
    assert back.keys() == ours.keys()
    for path, x in ours.items():
        np.testing.assert_array_equal(back[path], x)


def test_a_batch_with_padding_equals_mmf() -> None:
    tokens, pairs, regions = outputs()
    wanted = np.load(FIXTURE)
    np.testing.assert_allclose(pairs, wanted["pairs"], rtol=1e-4, atol=1e-4)
    for row, (words, count) in enumerate(zip(WORDS, REGIONS, strict=True)):
        np.testing.assert_allclose(tokens[row, :words], wanted["tokens"][row, :words], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(regions[row, :count], wanted["regions"][row, :count], rtol=1e-4, atol=1e-4)


def test_what_is_padded_is_not_read() -> None:
    """Other tokens and regions in its place change nothing."""
    batch = inputs()
    changes = {
        "tokens": np.where(batch["segments"] > 0, batch["tokens"], 5),
        "regions": np.where(batch["region_segments"][..., None] > 0, batch["regions"], 9.0).astype(np.float32),
        "region_boxes": np.where(batch["region_segments"][..., None] > 0, batch["region_boxes"], 0.5),
    }
    for before, after in zip(outputs(), outputs(**changes), strict=True):
        real = {7: WORDS, 5: REGIONS}.get(before.shape[1], np.full(2, before.shape[1]))
        for row, count in enumerate(real):
            np.testing.assert_allclose(after[row, :count], before[row, :count], rtol=1e-5, atol=1e-5)


def write_fixture(source: str) -> None:
    """Runs mmf's classes, with stand-ins for what they import of transformers 2 and of mmf itself."""
    import torch
    from transformers import BertConfig
    from transformers.models.bert import modeling_bert

    stubs: dict[str, dict[str, Any]] = {
        "omegaconf": {"OmegaConf": None},
        "transformers.modeling_bert": vars(modeling_bert)
        | {"BertLayerNorm": torch.nn.LayerNorm, "BertConfig": BertConfig},
        "mmf": {},
        "mmf.common": {},
        "mmf.common.registry": {"registry": types.SimpleNamespace(register_model=lambda name: lambda kind: kind)},
        "mmf.models": {"BaseModel": object},
        "mmf.utils": {},
        "mmf.utils.configuration": {"get_mmf_cache_dir": None},
        "mmf.utils.modeling": {"get_optimizer_parameters_for_bert": None},
    }
    for name, names in stubs.items():
        module = types.ModuleType(name)
        vars(module).update({key: value for key, value in names.items() if not key.startswith("__")})
        sys.modules[name] = module
    spec = importlib.util.spec_from_file_location("mmf_vilbert", source)
    assert spec and spec.loader
    mmf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mmf)
    mmf.ViLBERTBase.init_weights = lambda self: None
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        num_hidden_layers=TEXT_LAYERS,
        num_attention_heads=3,
        intermediate_size=31,
        max_position_embeddings=40,
        hidden_act="gelu",
        layer_norm_eps=1e-12,
        v_hidden_size=20,
        v_num_hidden_layers=2,
        v_num_attention_heads=2,
        v_intermediate_size=27,
        v_hidden_act="gelu",
        v_feature_size=DETECTOR["features"],
        v_target_size=DETECTOR["classes"],
        v_attention_probs_dropout_prob=0.1,
        v_hidden_dropout_prob=0.1,
        bi_hidden_size=28,
        bi_num_attention_heads=4,
        v_biattention_id=[0, 1],
        t_biattention_id=[2, 3],
        fusion_method="mul",
        dynamic_attention=False,
        visualization=False,
        fast_mode=False,
        with_coattention=True,
        in_batch_pairs=False,
        fixed_t_layer=0,
        fixed_v_layer=0,
        task_specific_tokens=False,
    )

    class Pretraining(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = mmf.ViLBERTBase(config)
            self.cls = mmf.BertPreTrainingHeads(config)

    reference = Pretraining().eval()
    ours = parameters()
    tensors = {name: torch.tensor(np.ascontiguousarray(x.read())) for name, x in scatter(rules(), ours).items()}
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    missing, unexpected = reference.load_state_dict(tensors, strict=False)
    rest = [name for name in missing if "q_dense" not in name and not name.endswith("position_ids")]
    assert not rest and not unexpected, (rest, unexpected)
    batch = {name: torch.tensor(x) for name, x in inputs().items()}
    top, left, bottom, right = batch["region_boxes"].unbind(-1)
    place_numbers = torch.stack([left, top, right, bottom, (bottom - top) * (right - left)], -1)
    with torch.no_grad():
        text, image, pooled_text, pooled_image, _ = reference.bert(
            batch["tokens"].long(),
            batch["regions"],
            place_numbers,
            batch["types"].long(),
            batch["segments"],
            batch["region_segments"],
        )
        tokens, regions, pairs = reference.cls(text, image, pooled_text, pooled_image)
    FIXTURE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FIXTURE, tokens=tokens.numpy(), regions=regions.numpy(), pairs=pairs.numpy())


if __name__ == "__main__":
    write_fixture(sys.argv[1])
