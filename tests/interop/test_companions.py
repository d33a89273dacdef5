"""What an export has beside its weights: class names, how images are read, the tokens that begin and end texts."""

import json
import shutil

import jax
import numpy as np
import PIL.Image
import pytest

import txjax
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.data import (
    AudioFolder,
    Bytes,
    CenterCrop,
    Channels,
    Completions,
    Images,
    JSONLines,
    LabelledAudio,
    LabelledText,
    NextTokenWindows,
    PadSquare,
    Resize,
    Stretch,
    Tags,
    TokenizerFolder,
    Trained,
)
from txjax.experiment import Experiment
from txjax.interop import huggingface
from txjax.interop.huggingface.audio_reading import extractor_entries
from txjax.interop.huggingface.image_reading import image_fields, padding_entries
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, LayerNorm, Learned, MeanPrefix, NormedPool, Pooler
from txjax.nn.audio.front_ends import SPEECH_COMMANDS, audio_spectrogram
from txjax.objectives import Classification, NextToken, SigmoidCrossEntropy
from txjax.train.run.workdir import lock_workdir, write_config
from txjax.types import UserError

from helpers import sentence_set, word_set
from helpers.arrays import variables
from helpers.published_tokenizers import llama

pytestmark = pytest.mark.claim("Transfer", "exports: class names, pixels and end tokens of the run's own data")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    at = tmp_path_factory.mktemp("tfds")
    sentence_set.prepare(at)
    return word_set.prepare(at)


def exported(
    experiment: Experiment, tmp_path, kept: dict | None = None, weights=None, step: int = 0
) -> dict[str, dict]:
    """The JSON files of the export of an untrained run, by name.

    Args:
      kept: JSON files that the workdir keeps of an import, by name.
      weights: the model's variables. If None, any, of a model of texts or images.
    """
    if weights is None:
        example = {name: x for name, x in experiment.data.spec().items() if name in ("tokens", "image")}
        example = {name: jax.numpy.zeros((1, *x.shape), x.dtype) for name, x in example.items()}
        weights = variables(experiment.model, *example.values())
    with lock_workdir(tmp_path / "run") as workdir:
        write_config(workdir, experiment)
        store = Store(workdir)
        parts = {"params": jax.tree.map(jax.numpy.asarray, weights["params"]), "frozen": {}, "model_state": {}}
        store.save_parts(step, {"weights": parts}, {"metrics": {"eval/valid/loss": 1.25} if step else {}})
        store.wait()
        for name, content in (kept or {}).items():
            (workdir / "huggingface").mkdir(exist_ok=True)
            (workdir / "huggingface" / name).write_text(json.dumps(content))
    assert main(["export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'x'}"]) == 0
    return {path.name: json.loads(path.read_text()) for path in (tmp_path / "x").glob("*.json")}


def decoder(data) -> Experiment:
    return Experiment(gpt(vocab=260, width=8, depth=1, heads=2, max_length=16), NextToken(), data)


def test_a_trained_run_has_a_model_card(data_dir, tmp_path):
    """Scores of the step, how to load it, what is not stated; the card of the imported model beside it."""
    data = LabelledText("made_sentences", "train", data_dir, text=("first",), classes=3, length=16)
    model = Bert(vocab=258, width=8, depth=1, heads=2, head=Classes(3, Pooler()), positions=Learned(max_length=16))
    exported(Experiment(model, Classification(), data), tmp_path, kept={"README.md": "the base"}, step=7)
    card = (tmp_path / "x" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers") and "step 7 of" in card
    assert (
        "from transformers import AutoTokenizer, BertForSequenceClassification" in card
        and "| eval/valid/loss | 1.25 |" in card
    )
    assert "| data | LabelledText of made_sentences train |" in card and "## Not stated" in card
    assert json.loads((tmp_path / "x" / "README.base.md").read_text()) == "the base" and "README.base.md" in card


def test_an_import_as_it_is_keeps_its_card(data_dir, tmp_path):
    data = LabelledText("made_sentences", "train", data_dir, text=("first",), classes=3, length=16)
    model = Bert(vocab=258, width=8, depth=1, heads=2, head=Classes(3, Pooler()), positions=Learned(max_length=16))
    exported(Experiment(model, Classification(), data), tmp_path, kept={"README.md": "the base"})
    assert json.loads((tmp_path / "x" / "README.md").read_text()) == "the base"


def test_several_classes_are_said_in_the_config(tmp_path):
    rows = [{"note": f"the {i} of us", "tags": ["b", "a"][: i % 3]} for i in range(9)]
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = LabelledText(source=JSONLines(str(notes)), text=("note",), label=Tags(), classes=2, length=16)
    model = Bert(vocab=258, width=8, depth=1, heads=2, head=Classes(2, Pooler()), positions=Learned(max_length=16))
    experiment = Experiment(model, Classification(loss=SigmoidCrossEntropy()), data)
    config = exported(experiment, tmp_path)["config.json"]
    assert config["problem_type"] == "multi_label_classification" and config["id2label"] == {"0": "a", "1": "b"}


def test_a_trained_tokenizer_is_exported(tmp_path):
    """As files that TokenizerFolder reads: the same ids, the same end of texts."""
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps({"note": f"the {i} of us"}) + "\n" for i in range(50)))
    source = JSONLines(str(notes))
    tokenizer = Trained(size=260, source=source, features=("note",), specials=("<|endoftext|>",))
    data = NextTokenWindows(source=source, split="train", feature="note", length=16, tokenizer=tokenizer)
    files = exported(decoder(data), tmp_path)
    assert files["tokenizer_config.json"]["eos_token"] == "<|endoftext|>"
    again = TokenizerFolder(str(tmp_path / "x"))
    assert again.encode("the 7 of us").tolist() == tokenizer.encode("the 7 of us").tolist() and again.roles().eos == (
        0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", [("note",), ("note", "reply")])
def test_a_classifier_of_a_table_reads_raw_texts_in_transformers(tmp_path, text):
    """The probabilities of texts and of pairs; of one that is too long; of one with the name of a special token."""
    transformers = pytest.importorskip("transformers")
    texts = ["where is it?", "é" * 50, "I want [SEP] it", ""]
    rows = [{"note": note, "reply": f"{i}, soon", "kind": "ab"[i % 2]} for i, note in enumerate(texts * 3)]
    table = tmp_path / "notes.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = LabelledText(source=str(table), text=text, label="kind", classes=2, length=64)
    model = Bert(vocab=258, width=8, depth=1, heads=2, head=Classes(2, Pooler()), positions=Learned(max_length=64))
    exported(Experiment(model, Classification(), data), tmp_path, step=1)
    theirs = transformers.pipeline("text-classification", model=str(tmp_path / "x"), top_k=None, truncation=True)
    keys = dict(zip(("text", "text_pair"), text, strict=False))
    answers = theirs([{key: row[name] for key, name in keys.items()} for row in rows])
    ours = txjax.open(tmp_path / "run").predict(rows)
    for answer, prediction in zip(answers, ours, strict=True):
        scores = {entry["label"]: entry["score"] for entry in answer}
        assert scores == pytest.approx(prediction.probabilities, abs=1e-5)


def test_names_of_classes_are_the_datas(data_dir, tmp_path):
    data = LabelledText("made_sentences", "train", data_dir, text=("first",), classes=3, length=16)
    model = Bert(vocab=258, width=8, depth=1, heads=2, head=Classes(3, Pooler()), positions=Learned(max_length=16))
    files = exported(Experiment(model, Classification(), data), tmp_path)
    assert files["config.json"]["id2label"] == {"0": "0", "1": "1", "2": "2"}
    assert files["config.json"]["label2id"] == {"0": 0, "1": 1, "2": 2}
    assert set(files) == {"config.json", "tokenizer.json", "tokenizer_config.json"}


@pytest.mark.parametrize(
    ("kept", "changed"),
    [
        (None, {"image_mean": [0.1], "image_std": [0.2], "size": {"height": 8, "width": 8}}),
        ({"image_mean": [0.1], "image_std": [0.2], "size": 8, "do_normalize": True, "image_processor_type": "X"}, {}),
        ({"image_mean": [0.5], "size": 9, "crop_size": 8, "image_processor_type": "X"}, {"image_mean": [0.1]}),
    ],
)
def test_pixels_are_the_datas(tmp_path, kept, changed):
    data = Images("txjax_digits", shape=(8, 8, 1), classes=10, mean=(0.1,), std=(0.2,))
    sizes = {"patch": 4, "width": 8, "depth": 1, "heads": 2, "image_size": (8, 8)}
    model = ViT(**sizes, head=Classes(10, FirstToken()), positions=Learned(max_length=5))
    files = exported(Experiment(model, Classification(), data), tmp_path, kept and {"preprocessor_config.json": kept})
    entries = files["preprocessor_config.json"]
    assert entries["image_mean"] == [0.1] and entries["image_std"] == [0.2] and entries["do_normalize"]
    assert {key: entries[key] for key in changed} == changed
    assert kept is None or {key: entries[key] for key in kept if key not in changed} == {
        key: value for key, value in kept.items() if key not in changed
    }
    assert entries["image_processor_type"] == ("X" if kept else "ViTImageProcessor")


@pytest.mark.parametrize("kept", [None, {"feature_extractor": extractor_entries(audio_spectrogram())}])
def test_the_front_end_travels_both_ways(tmp_path, kept):
    """It is written at export and read at import; into the file of a processor, if an import had one."""
    front_end = audio_spectrogram(SPEECH_COMMANDS, frames=30)
    sizes = {"patch": 8, "stride": 6, "width": 8, "depth": 1, "heads": 2, "image_size": (128, 30)}
    positions, head = Learned(max_length=2 + 21 * 4), Classes(2, NormedPool(MeanPrefix(), name="norm_head"))
    model = SpectrogramTransformer(
        **sizes, positions=positions, head=head, front_end=front_end, reads_padding=True, norm=LayerNorm(eps=1e-12)
    )
    data = LabelledAudio(source=AudioFolder(), samples=5000)
    weights = variables(model, jax.numpy.zeros((1, 30, 128)))
    files = {} if kept is None else {"processor_config.json": kept}
    files = exported(Experiment(model, Classification(), data), tmp_path, files, weights)
    assert ("preprocessor_config.json" in files) == (kept is None)
    entries = files["processor_config.json"]["feature_extractor"] if kept else files["preprocessor_config.json"]
    assert entries["max_length"] == 30
    again, _ = huggingface.load(tmp_path / "x")
    assert again.front_end == front_end and again.reads_padding


@pytest.mark.parametrize(
    ("end", "kept", "ends"),
    [
        ("[END]", None, 257),
        ("[STOP]", None, [258, 257]),
        ("[STOP]", {"eos_token_id": [257, 259]}, [258, 257, 259]),
        ("[END]", {"eos_token_id": [256, 257], "top_k": 3}, [256, 257]),
    ],
)
def test_texts_end_at_the_datas_token_too(tmp_path, end, kept, ends):
    tokenizer = Bytes(("[BOS]", "[END]", "[STOP]"))
    data = NextTokenWindows("txjax_python_text", length=16, tokenizer=tokenizer, end=end)
    files = exported(decoder(data), tmp_path, kept and {"generation_config.json": kept})
    assert files["generation_config.json"]["eos_token_id"] == ends
    if kept and ends == kept["eos_token_id"]:
        assert files["generation_config.json"] == kept
    assert files["config.json"]["bos_token_id"] == 256


def test_completions_end_at_the_tokenizers_token(data_dir, tmp_path):
    tokenizer = Bytes(("[END]",))
    data = Completions(
        "made_words", "train", data_dir, prompt="{question}", answer="{context}", length=16, tokenizer=tokenizer
    )
    assert exported(decoder(data), tmp_path)["generation_config.json"] == {"eos_token_id": 256}


def test_a_run_without_special_tokens_has_none(tmp_path):
    files = exported(decoder(NextTokenWindows("txjax_python_text", length=16)), tmp_path)
    assert set(files) == {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert "eos_token_id" not in files["config.json"]


def test_the_kept_tokenizer_outlives_the_import(tmp_path):
    (tmp_path / "import").mkdir()
    folder = llama(tmp_path / "import")
    data = NextTokenWindows("txjax_python_text", length=16, tokenizer=TokenizerFolder(str(folder)), end="<|end|>")
    kept = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    shutil.rmtree(folder)
    model = gpt(vocab=400, width=8, depth=1, heads=2, max_length=16)
    files = exported(Experiment(model, NextToken(), data), tmp_path, kept)
    assert {name: files[name] for name in kept} == kept


def test_keys_of_another_family_are_not_written(tmp_path):
    kept = {"model_type": "vit", "qkv_bias": True, "bos_token_id": 3}
    files = exported(decoder(NextTokenWindows("txjax_python_text", length=16)), tmp_path, {"config.json": kept})
    assert files["config.json"]["model_type"] == "gpt2" and "qkv_bias" not in files["config.json"]
    assert files["config.json"]["bos_token_id"] == 3


@pytest.mark.parametrize(
    ("entries", "transforms"),
    [
        ({"size": 28, "crop_pct": 0.875}, (Resize(32), CenterCrop(28))),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, (Stretch(384),)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.75, "crop_size": 352}, (Resize(512), CenterCrop(352))),
        ({"size": 30, "crop_size": 28, "do_center_crop": True}, (Stretch(30), CenterCrop(28))),
    ],
)
def test_the_file_and_not_the_processors_name_says_what_is_cropped(tmp_path, entries, transforms):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(entries))
    assert image_fields(tmp_path)["transforms"] == (*transforms, Channels(3))


def test_a_clips_one_number_is_the_shorter_side(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vision_config": {"num_channels": 1}}))
    old = {"size": 30, "crop_size": 28, "do_center_crop": True, "feature_extractor_type": "CLIPFeatureExtractor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(old | {"image_mean": [0.5], "image_std": [0.3]}))
    transforms = (Resize(30), CenterCrop(28), Channels(1))
    fields = {"shape": (28, 28, 1), "transforms": transforms, "mean": (0.5,), "std": (0.3,)}
    assert image_fields(tmp_path) == fields


def test_padding_to_a_square_is_llavas_alone(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    pads = {"size": {"shortest_edge": 28}, "crop_size": 28, "image_mean": [0.5, 0.4, 0.3], "do_pad": True}

    def reading(kind):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(pads | {"image_processor_type": kind}))
        return image_fields(tmp_path)["transforms"]

    padded = (Channels(3), PadSquare((0.5, 0.4, 0.3)), Resize(28), CenterCrop(28))
    assert reading("LlavaImageProcessorFast") == padded
    with pytest.raises(UserError, match="do_pad"):
        reading("ViTImageProcessor")


PADDED = {"do_pad": True, "do_center_crop": False, "image_processor_type": "LlavaImageProcessor"}


@pytest.mark.parametrize(
    ("transforms", "there", "entries"),
    [
        ((PadSquare((0.5,)), Stretch(8)), {}, PADDED),
        ((PadSquare((0.5,)), Stretch(8)), {"do_pad": True}, {}),
        ((Stretch(8),), {"do_pad": True}, {"do_pad": False}),
        ((Stretch(8),), {}, {}),
    ],
)
def test_padding_is_written(transforms, there, entries):
    assert padding_entries(transforms, (0.5, 0.5, 0.5), there) == entries


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, fields",
    [
        ("LlavaImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_size": 28, "do_pad": True}),
        ("CLIPImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_size": {"height": 24, "width": 24}}),
        ("SiglipImageProcessorPil", {"size": {"height": 24, "width": 24}}),
        ("ViTImageProcessorPil", {"size": {"height": 24, "width": 24}, "resample": 3}),
        ("DeiTImageProcessorPil", {"size": {"height": 32, "width": 32}, "crop_size": {"height": 24, "width": 24}}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_pct": 0.875}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
        ("PoolFormerImageProcessorPil", {"size": {"shortest_edge": 27}, "crop_size": 27, "crop_pct": 0.9}),
    ],
)
def test_images_are_read_as_the_reference_reads_them(tmp_path, name, fields):
    transformers = pytest.importorskip("transformers")
    processor = getattr(transformers, name)(**fields)
    processor.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    pixels = np.random.default_rng(0).integers(256, size=(40, 60, 3), dtype=np.uint8)
    reading, image = image_fields(tmp_path), pixels
    for transform in reading["transforms"]:
        image = transform(image, np.random.default_rng(0))
    assert image.shape == reading["shape"]
    expected = processor(PIL.Image.fromarray(pixels), return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
    normalised = (image / 255 - np.array(reading["mean"])) / np.array(reading["std"])
    np.testing.assert_allclose(normalised, expected, atol=1e-5)
