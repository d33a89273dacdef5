"""Imported models of audio are runs on a folder of recordings: what is in their config, and that they are evaluated."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
import tokenizers

from txjax import tree
from txjax.__main__ import main
from txjax.data import AudioFolder, ByName, LabelledAudio, TextNormalization, Utterances
from txjax.decoding import Beam, BestPath
from txjax.experiment import Experiment
from txjax.interop import huggingface
from txjax.interop.huggingface.audio_reading import extractor_entries
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.models.audio.conformer.conformer_block import ConformerBlockWithFinal
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.audio.speech_transformer import speech2text, whisper
from txjax.nn import MLP, Classes, LayerNorm, Learned, MeanPrefix, NormedPool, TokenClasses
from txjax.nn.audio import front_ends
from txjax.nn.audio.sequence_subsampling import GatedSubsampling
from txjax.nn.audio.subsampling import SeparableSubsampling
from txjax.nn.audio.waveform_convs import WaveformConvs, WaveformSamples
from txjax.objectives import CTC, Classification, NextToken

from helpers.arrays import variables
from helpers.audio_set import WORDS, file, noise, write_folder

pytestmark = pytest.mark.claim(
    "Transfer", "imported classifiers of audio, models of CTC and decoders of speech are evaluated at once"
)

SIZES: dict[str, Any] = dict(width=8, depth=1, heads=2)
LETTERS = "efhinorstuvwx"
NAMES = ("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>")


def write_tokenizer(folder: Path, *specials: str) -> int:
    """Writes a tokenizer.json of the letters of `WORDS` and special tokens. Returns the number of its tokens."""
    vocabulary = {token: number for number, token in enumerate((*LETTERS, *specials))}
    unknown = "<unk>" if "<unk>" in specials else None
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], unk_token=unknown))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in specials])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer.get_vocab_size()


def write_folder_of(folder: Path, model: Any, config: dict[str, Any], front_end: Any, **inputs: Any) -> Path:
    """A Hugging Face folder of a model, with the front end's preprocessor_config.json."""
    other = folder.with_name(f"{folder.name}-weights")
    huggingface.save(model, variables(model, **inputs), other, config)
    folder.mkdir(exist_ok=True)
    for path in other.iterdir():
        path.rename(folder / path.name)
    if front_end is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(extractor_entries(front_end)))
    return folder


def classifier(folder: Path, named: bool = True, front_end: Any = None) -> Path:
    names = {"0": "three", "1": "two", "2": "one"}
    model = SpectrogramTransformer(
        **SIZES,
        patch=8,
        stride=6,
        image_size=(128, 30),
        positions=Learned(max_length=2 + 21 * 4),
        head=Classes(3, NormedPool(MeanPrefix(), name="norm_head")),
        norm=LayerNorm(eps=1e-12),
        reads_padding=True,
    )
    config = {"id2label": names} if named else {}
    return write_folder_of(folder, model, config, front_end, features=jnp.zeros((1, 30, 128)))


def conformer(folder: Path, front_end: Any = None) -> Path:
    classes = write_tokenizer(folder, "<unk>", "<pad>")
    model = Conformer(
        **SIZES,
        subsampling=SeparableSubsampling(factor=2, channels=4),
        block=ConformerBlock(conv=ConvModule(kernel=3)),
        scale_exponent=0.5,
        head=TokenClasses(classes),
    )
    front_end = front_end or front_ends.parakeet()
    return write_folder_of(folder, model, {}, front_end, features=jnp.zeros((1, 16, 80)))


def decoder(folder: Path, build: Any, config: dict[str, Any], generation: dict[str, Any], encoder: Any) -> Path:
    vocab = write_tokenizer(folder, *NAMES)
    model = build(**SIZES, vocab=vocab, encoder=encoder)
    frames = getattr(model.encoder, "frames", 16)
    inputs = {"tokens": jnp.zeros((1, 1), jnp.int32), "features": jnp.zeros((1, frames, 80))}
    if generation:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return write_folder_of(folder, model, config, None, **inputs)


def imported(folder: Path, capsys: Any) -> tuple[Experiment, str]:
    """The experiment of the import of a folder, and what was printed."""
    code = main(["import", f"--from={folder}", f"--workdir={folder}-run"])
    output = capsys.readouterr()
    assert code == 0, output.err
    return tree.from_json(json.loads(Path(f"{folder}-run/config.json").read_text())), output.out + output.err


def evaluate(folder: Path, data_dir: str, capsys: Any, *flags: str) -> dict[str, float]:
    words = [f"--workdir={folder}-run", f"--config.data.source={data_dir}", "--json", *flags]
    code = main(["evaluate", *words])
    output = capsys.readouterr()
    assert code == 0, output.err
    return json.loads(output.out)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Recordings of three words at 8 kHz, which are resampled to the front ends' rate."""
    folder = tmp_path_factory.mktemp("recordings")
    files = {f"{number}.wav": file(noise(2400 + 100 * number, seed=number)) for number in range(3)}
    rows = [{"audio": name, "text": WORDS[n], "label": WORDS[n]} for n, name in enumerate(files)]
    return write_folder(folder, files, {"train": rows, "validation": rows})


@pytest.mark.slow
def test_a_classifier_has_a_folder_with_its_classes(tmp_path: Path, recordings: str, capsys: Any) -> None:
    """As long as its frames, at its rate, and by the names of its classes."""
    front_end = front_ends.audio_spectrogram(front_ends.SPEECH_COMMANDS, 30)
    experiment, _ = imported(classifier(tmp_path / "ast", front_end=front_end), capsys)
    data = experiment.data
    assert isinstance(data, LabelledAudio) and isinstance(experiment.objective, Classification)
    assert (data.source, data.rate, data.samples, data.too_long) == (AudioFolder(), 16_000, 400 + 29 * 160, "cut")
    assert data.label == ByName(names=("three", "two", "one"))
    scores = evaluate(tmp_path / "ast", recordings, capsys)
    assert 0 <= scores["eval/valid/accuracy"] <= 1


def test_a_classifier_without_its_front_end_is_a_model_alone(tmp_path: Path, capsys: Any) -> None:
    model, output = imported(classifier(tmp_path / "ast", named=False), capsys)
    assert isinstance(model, SpectrogramTransformer)
    assert "not for evaluate and generate: --from: expected a folder with preprocessor_config.json" in output


@pytest.mark.slow
def test_a_model_of_ctc_has_its_blank_and_its_tokens(tmp_path: Path, recordings: str, capsys: Any) -> None:
    experiment, _ = imported(conformer(tmp_path / "parakeet"), capsys)
    data = experiment.data
    assert isinstance(data, Utterances) and experiment.objective == CTC(blank=-1)
    assert (data.source, data.rate, data.samples, data.prompt) == (AudioFolder(), 16_000, 480_000, ())
    assert data.tokenizer.vocab() == experiment.model.head.classes == 15
    assert data.normalization == TextNormalization(case="lower")  # as all letters are
    assert experiment.evals["valid"].search == BestPath()
    scores = evaluate(tmp_path / "parakeet", recordings, capsys)
    assert scores["eval/valid/cer"] >= 0


def test_the_blank_and_the_letters_of_wav2vec2(tmp_path: Path, capsys: Any) -> None:
    """The first class is the blank, and all letters are large, in a vocabulary of characters."""
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", "E", "T"]
    model = Conformer(
        **SIZES,
        front_end=WaveformSamples(),
        subsampling=WaveformConvs(channels=(4, 4), sizes=(4, 3), strides=(3, 2), use_bias=False),
        reads_padding=True,
        block=ConformerBlockWithFinal(conv=ConvModule(kernel=3, activation="gelu", use_bias=False)),
        mlp=MLP(activation="gelu"),
        head=TokenClasses(len(tokens)),
    )
    folder = tmp_path / "wav2vec2"
    write_folder_of(folder, model, {"pad_token_id": 0}, WaveformSamples(rate=8000), features=jnp.zeros((1, 40, 1)))
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(tokens)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Wav2Vec2CTCTokenizer"}))
    experiment, _ = imported(folder, capsys)
    assert experiment.model.front_end == WaveformSamples(rate=8000) and experiment.objective == CTC(blank=0)
    assert (experiment.data.rate, experiment.data.samples) == (8000, 240_000)
    assert experiment.data.normalization == TextNormalization(case="upper")
    assert experiment.data.tokenizer.encode("TE E").tolist() == [6, 5, 4, 5]


WHISPER = {"frames": 60}
FORCED = {"forced_decoder_ids": [[1, None], [2, 17]], "no_timestamps_token_id": 18}


@pytest.mark.slow
def test_a_decoder_of_speech_begins_as_its_files_say(tmp_path: Path, recordings: str, capsys: Any, caplog: Any) -> None:
    """Whisper's language, task and no times; the weights of these tokens as targets are 0."""
    tokens = {"decoder_start_token_id": 14, "eos_token_id": 13, "bos_token_id": 13}
    folder = decoder(tmp_path / "whisper", whisper, tokens, FORCED, WHISPER)
    experiment, _ = imported(folder, capsys)
    data = experiment.data
    assert data.prompt == ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    assert "config.data.prompt has the language <|en|>" in caplog.text
    assert isinstance(experiment.objective, NextToken) and experiment.evals["valid"].search == Beam()
    assert (data.rate, data.samples, data.length) == (16_000, 60 * 160, 448)
    scores = evaluate(folder, recordings, capsys, "--config.data.length=12")
    assert scores["eval/valid/wer"] >= 0
    words = [f"--workdir={folder}-run", f"--audio={recordings}/0.wav", "--length=3", "--json"]
    assert main(["generate", *words]) == 0
    assert len(json.loads(capsys.readouterr().out)["texts"]) == 1


def test_other_decoders_begin_with_one_token(tmp_path: Path, capsys: Any) -> None:
    encoder = {"subsampling": GatedSubsampling(channels=8, reads_padding=True)}
    folder = decoder(tmp_path / "s2t", speech2text, {"decoder_start_token_id": 13}, {}, encoder)
    experiment, _ = imported(folder, capsys)
    assert experiment.data.prompt == ("<|endoftext|>",)
    assert (experiment.data.rate, experiment.data.samples, experiment.data.length) == (16_000, 480_000, 512)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"forced_decoder_ids": [3]}, "config.json: forced_decoder_ids: expected positions and their tokens, got [3]"),
        ({"forced_decoder_ids": 3}, "config.json: forced_decoder_ids: expected positions and their tokens, got 3"),
    ],
)
def test_what_begins_a_text_is_checked(config: Any, message: str, tmp_path: Path, capsys: Any) -> None:
    encoder = {"subsampling": GatedSubsampling(channels=8, reads_padding=True)}
    folder = decoder(tmp_path / "s2t", speech2text, {"decoder_start_token_id": 13} | config, {}, encoder)
    _, output = imported(folder, capsys)
    assert f"not for evaluate and generate: {message}" in output
