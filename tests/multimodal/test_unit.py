"""UniT: its parts are the reference's, padding has no effect, and a new task changes no other one."""

from typing import Any

import jax
import numpy as np
import pytest
from flax import traverse_util

from txjax.interop import huggingface
from txjax.models import Stage
from txjax.models.multimodal.unit import DecodedTask, MapEncoder, UniT
from txjax.models.multimodal.unit.card import separate_decoders
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import Classes, FirstToken, Identity, LayerNorm, Learned, ObjectBoxes, PatchEmbedding, TransformedClasses
from txjax.types import UserError, flat_paths

from helpers.arrays import call, filled, numbers, shapes, variables

WORDS = 11


def small(**fields: Any) -> UniT:
    """On a backbone that looks at every patch of 4 x 4 pixels by itself."""
    backbone = MetaFormer(stages=(Stage(12, 1),), stem=PatchEmbedding(patch=4), mixer=Identity(), norm=LayerNorm())
    tasks = {
        "boxes": DecodedTask(ObjectBoxes(4), queries=3),
        "answers": DecodedTask(TransformedClasses(5, FirstToken()), queries=2),
        "texts": DecodedTask(Classes(2, FirstToken()), queries=1, text_tokens=1),
    }
    style: dict[str, Any] = dict(
        vision=MapEncoder(backbone=backbone, width=8, depth=1, heads=2),
        text=Bert(vocab=WORDS, width=12, depth=2, heads=2, head=None, positions=Learned(max_length=9)),
        tasks=tasks,
        most_tasks=5,
        width=16,
        depth=2,
        heads=2,
    )
    return UniT(**style | fields)


def texts() -> dict[str, np.ndarray]:
    """Two texts, the second with padding."""
    segments = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
    tokens = np.random.default_rng(3).integers(0, WORDS, (2, 7)).astype(np.int32)
    return {"tokens": tokens, "segments": segments}


def test_padding_changes_nothing() -> None:
    """Of the image and of the text, whatever is there."""
    model = small().for_task("answers")
    image = numbers(1, 12, 20, 1)
    alone = {"image": image, "tokens": texts()["tokens"][1:, :4]}
    weights = variables(model, **alone)
    output = call(jax.jit(model.apply), weights, **alone)
    assert output.shape == (1, 5)
    padded = numbers(2, 20, 28, 1, seed=1)
    padded[1, :12, :20] = image[0]
    extent = np.array([[20, 28], [12, 20]], np.int32)
    both = call(jax.jit(model.apply), weights, image=padded, extent=extent, **texts())
    np.testing.assert_allclose(both[1], output[0], rtol=1e-4, atol=1e-5)
    assert np.isfinite(both).all()


def test_a_task_reads_the_text_that_it_states() -> None:
    """All tokens, or the class token alone, which has read the others in the encoder."""
    batch = texts()
    model = small(
        tasks={"all": DecodedTask(Classes(2, FirstToken())), "one": DecodedTask(Classes(2, FirstToken()), 25, 1)}
    )
    for task, length in (("all", 7), ("one", 1)):
        of_task = model.for_task(task)
        weights = variables(of_task, **batch)
        _, state = jax.jit(lambda v, b, m=of_task: m.apply(v, **b, capture_intermediates=True))(weights, batch)
        features = state["intermediates"]["text_features"]["__call__"][0]
        assert features.shape == (2, length, 16)


def test_a_new_task_at_the_end_changes_no_other_one() -> None:
    """Nor does a decoder of its own."""
    model = small()
    batch = {"image": numbers(2, 8, 8, 1), **texts()}
    weights = variables(model.for_task("answers"), **batch)
    output = call(jax.jit(model.for_task("answers").apply), weights, **batch)
    more = small(tasks={**model.tasks, "new": DecodedTask(Classes(2, FirstToken()))})
    again = call(jax.jit(more.for_task("answers").apply), weights, **batch)
    np.testing.assert_array_equal(again, output)
    separate = small(tasks=separate_decoders(model.tasks))
    paths = flat_paths(shapes(separate.for_task("texts"), **texts())["params"])
    assert {path.split("/")[0] for path in paths if path.startswith("decoder")} == {"decoder_texts"}
    with pytest.raises(UserError, match="config.model.most_tasks: expected at least the 3 tasks, got 2"):
        shapes(small(most_tasks=2).for_task("texts"), **texts())
    with pytest.raises(UserError, match="config.model.tasks: expected what the task text has, .*texts"):
        model.for_task("text")
    with pytest.raises(UserError, match="config.model.task: expected one of boxes, answers, texts"):
        shapes(model, **texts())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
def test_its_parts_are_detrs_and_berts(tmp_path) -> None:
    """Step by step as in the authors' code (`mmf/models/unit`), with the layers of `DetrModel` and `BertModel`: a token
    of the task without a position before the map, and one before the embedded words; the encoder's input is added to
    its output; both are projected with their positions; the decoder reads image and text.
    """
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=WORDS, hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=9,
        ),
    )  # fmt: skip
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1], out_features=["stage2"], num_channels=3
    )
    sizes = dict(encoder_layers=1, decoder_layers=2, encoder_ffn_dim=20, decoder_ffn_dim=20, num_queries=3)
    heads = dict(encoder_attention_heads=2, decoder_attention_heads=2, backbone_config=backbone)
    detrs = [
        transformers.DetrForObjectDetection(transformers.DetrConfig(d_model=width, **sizes, **heads))
        for width in (8, 16)
    ]
    parts = []
    for number, model in enumerate([*detrs, bert]):
        model.eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.1 + 0.3 * torch.randn(parameter.shape))
        model.save_pretrained(tmp_path / str(number))
        parts.append(huggingface.load(tmp_path / str(number)))
    (image_model, of_image), (decoder, of_decoder), (text, of_text) = parts
    vision = MapEncoder(
        backbone=image_model.backbone,
        map_positions=image_model.map_positions,
        width=8,
        depth=1,
        heads=2,
        mlp=image_model.mlp,
        norm=image_model.norm,
    )
    task = DecodedTask(TransformedClasses(5, FirstToken()), queries=3)
    model = small(
        vision=vision,
        text=text.clone(head=None),
        tasks={"first": task, "answers": task},
        mlp=decoder.mlp,
        norm=decoder.norm,
    ).for_task("answers")
    pixels = numbers(2, 64, 64, 3)
    batch = texts()
    params = flat_paths(filled(shapes(model, image=pixels, **batch))["params"])
    kept = {
        "vision/": {
            path: x
            for path, x in flat_paths(of_image["params"]).items()
            if path[:4] not in ("deco", "quer", "head", "box/")
        },
        "decoder_shared": {
            path.removeprefix("decoder"): x
            for path, x in flat_paths(of_decoder["params"]).items()
            if path[:5] == "decod"
        },
        "text/": {path: x for path, x in flat_paths(of_text["params"]).items() if path[:4] != "pool"},
    }
    known = {prefix + path: x for prefix, paths in kept.items() for path, x in paths.items()}
    assert known.keys() <= params.keys()
    params |= known
    tree = traverse_util.unflatten_dict(params, sep="/")
    constants = {"batch_stats": {"vision": of_image["batch_stats"]}}
    output = call(jax.jit(model.apply), {"params": tree, **constants}, image=pixels, **batch)

    def linear(name: str, x: Any) -> Any:
        return x @ torch.tensor(params[f"{name}/kernel"]) + torch.tensor(params[f"{name}/bias"])

    def row(name: str) -> Any:
        return torch.tensor(params[f"{name}/embedding"])[1].expand(2, 1, -1)

    with torch.no_grad():
        (*_, (feature_map, mask)) = detrs[0].model.backbone(
            torch.tensor(pixels.transpose(0, 3, 1, 2)), torch.ones(2, 64, 64)
        )
        map_tokens = detrs[0].model.input_projection(feature_map).flatten(2).transpose(1, 2)
        position = (
            detrs[0].model.position_embedding(feature_map.shape, "cpu", torch.float32, mask).flatten(2).transpose(1, 2)
        )
        tokens = torch.cat([row("vision_tasks"), map_tokens], 1)
        padded = torch.cat([torch.zeros(2, 1, 8), position], 1)
        encoded = detrs[0].model.encoder(inputs_embeds=tokens, spatial_position_embeddings=padded).last_hidden_state
        image = map_tokens + encoded[:, 1:]
        embedded = bert.embeddings(torch.tensor(batch["tokens"].astype(np.int64)))
        real = torch.tensor(batch["segments"]) > 0
        visible = torch.cat([torch.ones(2, 1, dtype=bool), real], 1)
        words = bert.encoder(
            torch.cat([row("text_tasks"), embedded], 1), attention_mask=(~visible)[:, None, None] * -1e9
        ).last_hidden_state[:, 1:]
        rows = bert.embeddings.position_embeddings.weight[:7].expand(2, -1, -1)
        memory = torch.cat([linear("vision_features", image), linear("text_features", words)], 1)
        positions = torch.cat([linear("vision_positions", position), linear("text_positions", rows)], 1)
        queries = torch.tensor(params["queries_answers/embedding"]).expand(2, -1, -1)
        decoded = (
            detrs[1]
            .model.decoder(
                inputs_embeds=torch.zeros_like(queries),
                encoder_hidden_states=memory,
                encoder_attention_mask=torch.cat([torch.ones(2, image.shape[1]), real.float()], 1),
                spatial_position_embeddings=positions,
                object_queries_position_embeddings=queries,
            )
            .last_hidden_state[:, 0]
        )
        hidden = torch.nn.functional.gelu(linear("answers/transform", decoded))
        scale, bias = (torch.tensor(params[f"answers/norm_transform/{name}"]) for name in ("scale", "bias"))
        wanted = linear("answers/head", torch.nn.functional.layer_norm(hidden, (16,), scale, bias, 1e-12))
    np.testing.assert_allclose(output, wanted.numpy(), atol=2e-4 * float(wanted.abs().max()))
