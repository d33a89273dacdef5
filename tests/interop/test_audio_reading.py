"""How imported models read waveforms: the front end of preprocessor_config.json, both ways."""

import dataclasses
import json

import pytest

from txjax.interop.huggingface.audio_reading import (
    extractor_entries,
    front_end_of,
    read_front_end,
    with_front_end,
)
from txjax.models.audio.speech_transformer import whisper
from txjax.models.text.decoder import Decoder
from txjax.nn.audio import front_ends
from txjax.nn.audio.emphasis import Emphasis
from txjax.nn.audio.feature_norms import FeatureNorm
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.waveform_convs import WaveformSamples
from txjax.types import UserError

PUBLISHED = {
    "ASTFeatureExtractor": front_ends.audio_spectrogram(),
    "Speech2TextFeatureExtractor": front_ends.speech2text(),
    "WhisperFeatureExtractor": front_ends.whisper(),
    "ParakeetFeatureExtractor": front_ends.parakeet(),
    "Wav2Vec2FeatureExtractor": WaveformSamples(),
}
OTHERS = {
    "speech commands": front_ends.audio_spectrogram(front_ends.SPEECH_COMMANDS, 128),
    "not normalised": dataclasses.replace(front_ends.audio_spectrogram(), norm=FeatureNorm()),
    "large-v3": front_ends.whisper(mels=128),
    "128 mels": front_ends.parakeet(mels=128),
    "without emphasis": dataclasses.replace(front_ends.parakeet(), emphasis=Emphasis()),
    "plain samples": WaveformSamples(rate=8000, norm=FeatureNorm()),
}


def write(folder, entries) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps(entries))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_extractors_have_their_front_end(name, tmp_path):
    """Of a file without any option, all of which have their defaults."""
    write(tmp_path, {"feature_extractor_type": name})
    assert read_front_end(tmp_path) == PUBLISHED[name]
    assert extractor_entries(PUBLISHED[name])["feature_extractor_type"] == name


@pytest.mark.parametrize("front_end", (PUBLISHED | OTHERS).values(), ids=PUBLISHED | OTHERS)
def test_what_is_written_is_read(front_end, tmp_path):
    write(tmp_path, extractor_entries(front_end))
    assert read_front_end(tmp_path) == front_end


def test_a_front_end_that_no_extractor_has_is_a_warning(caplog):
    assert extractor_entries(LogMel(rate=8000, window=200, hop=80, fft=256, mels=40)) == {}
    assert "no preprocessor_config.json: no feature extractor of Hugging Face's is equal to" in caplog.text


def test_a_decoder_of_speech_has_it_in_its_encoder():
    model = whisper(vocab=5, width=4, depth=1, heads=2)
    changed = with_front_end(model, front_ends.whisper(mels=128))
    assert front_end_of(model) == front_ends.whisper() and front_end_of(changed) == front_ends.whisper(mels=128)
    decoder = Decoder(vocab=5, width=4, depth=1, heads=2)
    assert front_end_of(decoder) is None and with_front_end(decoder, front_ends.whisper()) is decoder


def test_the_file_of_a_processor_is_first(tmp_path):
    """transformers 5 writes what extracts features into the file of the processor, which has a tokenizer too."""
    write(tmp_path, extractor_entries(front_ends.parakeet(mels=64)))
    processor = {"processor_class": "ParakeetProcessor", "feature_extractor": extractor_entries(front_ends.parakeet())}
    (tmp_path / "processor_config.json").write_text(json.dumps(processor))
    assert read_front_end(tmp_path) == front_ends.parakeet()
    processor["feature_extractor"]["dither"] = 0.1
    (tmp_path / "processor_config.json").write_text(json.dumps(processor))
    with pytest.raises(UserError, match=r"processor_config\.json: feature_extractor\.dither: expected no such option"):
        read_front_end(tmp_path)
    (tmp_path / "processor_config.json").write_text(json.dumps({"processor_class": "ParakeetProcessor"}))
    assert read_front_end(tmp_path) == front_ends.parakeet(mels=64)


def test_other_modalities_have_none(tmp_path, caplog):
    assert read_front_end(tmp_path) is None
    write(tmp_path, {"image_processor_type": "ViTImageProcessor"})
    assert read_front_end(tmp_path) is None and not caplog.text
    write(tmp_path, {"feature_extractor_type": "EncodecFeatureExtractor"})
    assert read_front_end(tmp_path) is None and "no front end of txjax is a EncodecFeatureExtractor" in caplog.text


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"padding_value": 1.0}, r"preprocessor_config\.json: padding_value: expected 0\.0, got 1\.0"),
        ({"std": 0.0}, r"preprocessor_config\.json: std: expected a number above 0, got 0\.0"),
        ({"mean": "x"}, r"preprocessor_config\.json: mean: expected a value like -4\.2677393, got 'x'"),
        ({"num_mel_bins": 0}, r"preprocessor_config\.json: num_mel_bins: expected at least 1, got 0"),
        ({"num_mel_bin": 3}, r"json: num_mel_bin: expected no such option, got 3; did you mean num_mel_bins"),
        ({"padding_side": "left"}, r"preprocessor_config\.json: padding_side: expected 'right', got 'left'"),
    ],
)
def test_mistakes_are_named(entries, message, tmp_path):
    write(tmp_path, {"feature_extractor_type": "ASTFeatureExtractor"} | entries)
    with pytest.raises(UserError, match=message):
        read_front_end(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference warns of an empty filter
@pytest.mark.parametrize("name", PUBLISHED)
def test_files_of_the_reference(name, tmp_path):
    """Its own file is read, and it reads ours with the same options."""
    transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")
    pytest.importorskip("torch", reason="pip install '.[parity]'")
    theirs = getattr(transformers, name)()
    theirs.save_pretrained(tmp_path)
    assert read_front_end(tmp_path) == PUBLISHED[name]
    write(tmp_path, extractor_entries(PUBLISHED[name]))
    ours = getattr(transformers, name).from_pretrained(tmp_path)
    assert json.loads(ours.to_json_string()) == json.loads(theirs.to_json_string())
