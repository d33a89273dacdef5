"""The Audio Spectrogram Transformer: its patches, padding, tokens and head, and a start from a ViT."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Grid, Learned, MeanPrefix, MeanTokens, NormedPool, overlapping_patches
from txjax.nn.audio.front_ends import audio_spectrogram
from txjax.nn.audio.spec_augment import AxisMasks, Constant, SpecAugment
from txjax.nn.stack.captures import LAYER_INPUTS, layer_inputs
from txjax.objectives import Classification
from txjax.objectives.masked_features import mask_features
from txjax.report.inspection.examples import Example, shown_features
from txjax.report.inspection.findings import findings
from txjax.report.inspection.inspect_page import pictures_of
from txjax.transfer import CutOrStretch, From, SummedChannels
from txjax.transfer.match import Source, match, stored_variables
from txjax.types import UserError, flat_paths

from helpers.arrays import numbers, on_jax, shapes, variables
from helpers.audio_set import file, noise, write_folder

HEAD = Classes(3, NormedPool(MeanPrefix(), name="norm_head"))
FEATURES = numbers(2, 15, 9)
CORNERS = [(row, column) for row in (0, 3) for column in (0, 3, 6, 9)]  # of patches of 5 x 5 at distances of 3

STEPS = ["--config.num_steps=1", "--config.optimizer.schedule.warmup_steps=0"]
VIT = """
from txjax.data import Images
from txjax.experiment import Experiment
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned
from txjax.objectives import Classification

def get_config():
    model = ViT(patch=4, width=8, depth=1, heads=2, head=Classes(None, FirstToken()), positions=Learned(max_length=5))
    data = Images("txjax_digits", shape=(8, 8, 1), mean=(0.1,), std=(0.2,))
    return Experiment(model=model, objective=Classification(), data=data, batch_size=4)
"""
AST = """
from txjax.data import AudioFolder, LabelledAudio
from txjax.experiment import Experiment
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.nn import Classes, Learned, MeanPrefix, NormedPool
from txjax.nn.audio.log_mel import LogMel
from txjax.objectives import Classification
from txjax.transfer import CutOrStretch, From, SummedChannels

def get_config():
    model = SpectrogramTransformer(
        patch=4, stride=3, width=8, depth=1, heads=2, positions=Learned(max_length=2 + 2 * 3), image_size=(8, 12),
        front_end=LogMel(rate=8000, window=200, hop=80, fft=256, mels=8),
        head=Classes(None, NormedPool(MeanPrefix(), name="norm_head")),
    )
    resize = CutOrStretch(prefix=2, prefix_there=1, columns=3), SummedChannels()
    new = "head", "norm_head", "pool/distillation"
    return Experiment(
        model=model,
        objective=Classification(),
        data=LabelledAudio(source=AudioFolder("DATA"), rate=8000, samples=900),
        init_from=(From(omit=new, resize=resize), From(here="pool/distillation", there="pool/token")),
        batch_size=4,
    )
"""


def model(**fields: Any) -> SpectrogramTransformer:
    sizes: dict[str, Any] = dict(patch=5, stride=3, width=8, depth=1, heads=2, image_size=(9, 15))
    return SpectrogramTransformer(**sizes | {"positions": Learned(max_length=10), "head": HEAD} | fields)


def test_patches_overlap_and_rows_are_the_first_axis() -> None:
    image = numbers(2, 9, 15, 2)
    expected = np.stack([image[:, r : r + 5, c : c + 5].reshape(2, 50) for r, c in CORNERS], 1)
    np.testing.assert_array_equal(overlapping_patches(jnp.asarray(image), 5, 3), expected)


def test_tokens_are_two_learned_ones_then_patches_of_frequencies_and_times() -> None:
    """Against the embedding of each patch, with the positions: the input of the first layer."""
    params = variables(model(), FEATURES)["params"]
    with layer_inputs():
        _, state = model().apply({"params": params}, FEATURES, mutable=["intermediates", LAYER_INPUTS])
    stream = state["intermediates"]["layers"]["block"]["layer_input"]
    spectrogram = FEATURES.swapaxes(1, 2)
    patches = np.stack([spectrogram[:, r : r + 5, c : c + 5].reshape(2, 25) for r, c in CORNERS], 1)
    embedded = patches @ params["patch_embed"]["kernel"] + params["patch_embed"]["bias"]
    learned = np.broadcast_to(np.stack([params["pool"]["token"], params["pool"]["distillation"]]), (2, 2, 8))
    table = params["positions"]["table"]["embedding"]
    np.testing.assert_allclose(stream[0], np.concatenate([learned, embedded], 1) + table[None], atol=1e-5)


def test_the_head_reads_the_mean_of_both_tokens_after_a_norm_of_its_own() -> None:
    params = variables(model(), FEATURES)["params"]
    encoded = jax.jit(model(head=None).apply)({"params": params}, FEATURES)
    assert encoded.grid == (2, 4, 2) and encoded.segments is None
    pooled = np.asarray(encoded.features)[:, :2].mean(1)
    normed = (pooled - pooled.mean(-1, keepdims=True)) / np.sqrt(pooled.var(-1, keepdims=True) + 1e-6)
    normed = normed * params["norm_head"]["scale"] + params["norm_head"]["bias"]
    logits = normed @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(jax.jit(model().apply)({"params": params}, FEATURES), logits, atol=1e-4)


@pytest.mark.parametrize("head", [HEAD, Classes(3, MeanTokens())], ids=["prefix", "patches"])
def test_padding_is_not_read_and_positions_are_those_of_all_buckets(head: Classes) -> None:
    """Eight frames are the same in a bucket of 15, in one of 10, and alone; three of the four columns have one."""
    masked = model(head=head)
    params, length = variables(masked, FEATURES), np.asarray([15, 8], np.int32)
    apply = jax.jit(masked.apply)
    logits = apply(params, FEATURES, length)
    other = FEATURES.copy()
    other[1, 8:] = 7
    np.testing.assert_array_equal(apply(params, other, length), logits)
    for frames, rows in ((10, [8]), (8, [8]), (8, None)):
        alone = apply(params, FEATURES[1:, :frames], None if rows is None else np.asarray(rows, np.int32))
        np.testing.assert_allclose(alone, logits[1:], rtol=1e-5, atol=1e-5)
    encoded = jax.jit(masked.clone(head=None).apply)(params, FEATURES, length)
    np.testing.assert_array_equal(encoded.segments, [[1] * 10, [1, 1] + [1, 1, 1, 0] * 2])


def test_padding_is_a_part_of_the_input_where_the_model_reads_it() -> None:
    published, length = model(reads_padding=True), np.asarray([15, 8], np.int32)
    params = variables(published, FEATURES)
    apply = jax.jit(published.apply)
    np.testing.assert_array_equal(apply(params, FEATURES, length), apply(params, FEATURES))
    assert not np.allclose(apply(params, FEATURES, length), jax.jit(model().apply)(params, FEATURES, length), atol=1e-3)


def test_features_are_computed_from_waveforms() -> None:
    front_end = audio_spectrogram(frames=15)
    batch = {"audio": jnp.asarray(numbers(2, 2000)), "audio_length": jnp.asarray([2000, 900], jnp.int32)}
    inputs = model(front_end=front_end).inputs(batch)
    features, length = front_end(batch["audio"], batch["audio_length"])
    assert set(inputs) == {"features", "features_length"} and features.shape == (2, 15, 128)
    np.testing.assert_array_equal(inputs["features"], features)
    np.testing.assert_array_equal(inputs["features_length"], length)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"image_size": (9, 12)},
            r"image_size: expected .*' bins and frames, or \(\), got \(9, 12\); 9 x 15",
        ),
        ({"reads_padding": True, "image_size": (9, 20)}, r"config\.model\.image_size: .*; 9 x 15"),
        ({"patch": 10, "image_size": ()}, r"config\.model\.patch: expected at most the smaller side of 9 x 15, got 10"),
        ({"class_token": None}, r"config\.model\.head\.pool: expected MeanTokens\(\), or a class_token, got 'MeanPr"),
        ({"positions": Learned(max_length=9)}, r"positions\.max_length: expected at least .* 10, got 9"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(model(**fields), FEATURES)


def test_all_but_the_head_starts_from_a_vit() -> None:
    """Of color images of 5 x 5 patches; the second token and its position begin as copies of the class token's."""
    head = Classes(2, FirstToken())
    vit = ViT(patch=5, width=8, depth=1, heads=2, positions=Learned(max_length=26), head=head)
    stored, here = (
        stored_variables({f"weights/params/{path}": (x.shape, "float32") for path, x in flat_paths(params).items()})
        for params in (
            shapes(vit, numbers(1, 25, 25, 3))["params"],
            shapes(model(), FEATURES)["params"],
        )
    )
    resize = CutOrStretch(prefix=2, prefix_there=1, columns=4), SummedChannels()
    origins = (
        From("vit", omit=("head", "norm_head", "pool/distillation"), resize=resize),
        From("vit", here="pool/distillation", there="pool/token"),
    )
    axes = {"positions/table/embedding": ("positions", "embed"), "patch_embed/kernel": ("pixels", "embed")}
    sources = [Source(f"init_from[{i}]", origin, "vit", stored) for i, origin in enumerate(origins)]
    rows = {row.path: row for row in match(sources, here, axes) if row.here}
    actions = {action: {path for path in rows if rows[path].action == action} for action in ("resized", "new")}
    assert actions["resized"] == {"positions/table/embedding", "patch_embed/kernel"}
    assert {path.partition("/")[0] for path in actions["new"]} == {"head", "norm_head"}
    assert rows["pool/distillation"].there == rows["pool/token"].there
    table = numbers(26, 8)
    middle = table[1:].reshape(5, 5, 8)[1:3, :4].reshape(8, 8)  # 5 // 2 - 4 // 2 = 0
    expected = np.concatenate([table[[0, 0]], middle])
    np.testing.assert_array_equal(rows["positions/table/embedding"].resize(jnp.asarray(table)), expected)


def test_features_are_masked_in_training_alone() -> None:
    augment = SpecAugment(frequency=AxisMasks(count=1, width=6), time=AxisMasks(count=1, width=9), fill=Constant(0.0))
    batch = {
        "id": jnp.asarray([3, 4], jnp.int32),
        "features": jnp.asarray(FEATURES),
        "features_length": jnp.asarray([15, 8], jnp.int32),
        "label": jnp.asarray([0, 2], jnp.int32),
        "weights": jnp.ones(2),
    }
    params, key = variables(model(), FEATURES), jax.random.key(1)

    def loss(objective: Classification, batch: Any, train: bool) -> jax.Array:
        return objective(model(), params, batch, key, train).losses["classification"].value

    masked = batch | mask_features(augment, {k: batch[k] for k in ("features", "features_length")}, batch, key, True)
    assert (masked["features"] == 0).any()
    plain, augmented = Classification(), Classification(augment=augment)
    np.testing.assert_allclose(loss(augmented, batch, True), loss(plain, masked, True), rtol=1e-6)
    np.testing.assert_array_equal(loss(augmented, batch, False), loss(plain, batch, False))


@pytest.mark.slow
def test_an_inspection_has_the_grid_of_frequencies_and_times() -> None:
    inputs = {"features": FEATURES[:1], "features_length": np.asarray([15], np.int32)}
    params = on_jax(variables(model(), FEATURES))
    (example,) = (Example("an example", inputs, shown_features(model(), inputs), {}),)
    seen = findings(model(), params, [example])
    (attention,) = seen.inspections[0].attentions.values()
    assert attention.keys.name == "features" and attention.keys.grid == Grid(2, 4, 2)
    (kept,) = seen.inspections[0].kept.values()
    assert kept.weights.shape == (1, 1, 2, 10) and kept.distance is not None and kept.rollout is not None
    assert seen.method == "Grad-CAM before the last layer"
    pictures = pictures_of(seen, model(), params["params"], None)
    names = {"overview", "attention_0_attention", "distance", "positions", "filters"}
    assert names == {picture.name for picture in pictures}


@pytest.mark.slow
def test_a_run_starts_from_a_vit_by_the_flags_of_the_recipe(tmp_path: Path) -> None:
    """Digits of 8 x 8 pixels, then recordings: what both have is loaded, cut, stretched or copied."""
    vit, ast = tmp_path / "vit.py", tmp_path / "ast.py"
    vit.write_text(VIT)
    rows = [{"audio": f"{number}.wav", "label": "ab"[number % 2]} for number in range(4)]
    files = {row["audio"]: file(noise(900, number)) for number, row in enumerate(rows)}
    ast.write_text(AST.replace("DATA", write_folder(tmp_path / "sounds", files, {"train": rows, "test": rows})))
    runs = [str(tmp_path / name) for name in ("vit_run", "ast_run")]
    assert main(["train", f"--config={vit}", f"--workdir={runs[0]}", *STEPS]) == 0
    flags = [f"--config.init_from[{number}].run={runs[0]}" for number in range(2)]
    assert main(["train", f"--config={ast}", f"--workdir={runs[1]}", *STEPS, *flags]) == 0
    arrays = json.loads((tmp_path / "ast_run" / "transfer.json").read_text())["arrays"]
    actions = {array["path"]: array["action"] for array in arrays if array["action"] != "dropped"}
    assert actions["positions/table/embedding"] == "resized" and actions["pool/distillation"] == "loaded"
    assert {path for path, action in actions.items() if action == "new"} == {
        *("head/bias", "head/kernel", "norm_head/bias", "norm_head/scale")
    }
