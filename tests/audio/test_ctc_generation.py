"""`txjax generate --audio` of a run with CTC: the words of recordings, and the seconds of each."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import Bytes, Characters
from txjax.decoding.frame_times import FrameTimes
from txjax.decoding.word_times import TimedWord, word_times
from txjax.models.audio.conformer import Conformer
from txjax.models.audio.speech_transformer import SpeechTransformer, speech2text
from txjax.nn import TokenClasses
from txjax.nn.audio.differences import Differences
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.subsampling import SeparableSubsampling
from txjax.nn.audio.waveform_convs import WaveformConvs, WaveformSamples
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Generation", "`txjax generate --audio` of a run with CTC writes the words, and `--times` the seconds of each"
)


def ask(capsys: Any, run: tuple[Path, Path], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["generate", f"--workdir={run[0]}", "--trust=helpers.level_texts", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_words_and_their_seconds(level_run: tuple[Path, Path], capsys: Any) -> None:
    """A frame of logits is 2 x 80 samples at 8 kHz, .02 s: "ab" is in frames 2 to 8, "b" in 10 to 14."""
    first, second = (str(level_run[1] / name) for name in ("ab_b.wav", "b.wav"))
    code, out, _ = ask(capsys, level_run, f"--audio={first},{second}", "--times")
    assert code == 0
    assert out.splitlines() == [
        first,
        "ab b",
        "    0.04     0.16  ab",
        "    0.20     0.28  b",
        "",
        second,
        "b",
        "    0.02     0.12  b",
    ]
    assert ask(capsys, level_run, f"--audio={second}") == (0, f"{second}\nb\n", "")


def test_the_best_texts_of_a_beam(level_run: tuple[Path, Path], capsys: Any) -> None:
    path = str(level_run[1] / "b.wav")
    code, out, _ = ask(capsys, level_run, f"--audio={path}", "--beam=4", "--samples=2", "--times", "--json")
    record = json.loads(out)
    assert code == 0 and record["prompt"] == path and record["step"] == 1
    assert record["texts"][0] == "b" and len(record["texts"]) == 2
    assert record["scores"][0] > record["scores"][1]
    assert record["times"][0] == [{"word": "b", "start": 0.02, "end": 0.12}]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--prompt=a"], "--prompt: expected --audio=FILE, since the run reads audio, got 'a'"),
        ([], "--audio: expected WAV or FLAC files, since the run reads audio, got None"),
        (["--audio=no.wav"], "--audio: expected a WAV or FLAC file, got 'no.wav'"),
        (["--audio=a.wav", "--temperature=1"], "--temperature: expected a decoder's run: texts of CTC"),
        (["--audio=a.wav", "--length=9"], "--length: expected a decoder's run: texts of CTC"),
        (["--audio=a.wav", "--beam=4", "--lm=a"], "--lm: expected a decoder's run: texts of CTC"),
        (["--audio=a.wav", "--samples=2"], "--samples: expected --beam too"),
    ],
)
def test_mistakes_are_one_line(level_run: tuple[Path, Path], capsys: Any, flags: list[str], message: str) -> None:
    code, out, err = ask(capsys, level_run, *flags)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


def test_only_runs_with_ctc_have_times(straight_run: Path, capsys: Any) -> None:
    capsys.readouterr()
    assert main(["generate", f"--workdir={straight_run}", "--times"]) == 2
    expected = "txjax: --times: expected a run with CTC, since only these have times, got 'NextToken'"
    assert capsys.readouterr().err.strip() == expected


def test_words_of_pieces_of_characters_and_of_words() -> None:
    """The two bytes of an umlaut are one character; a symbol of several words gives each its times."""
    times = [0.1 * n for n in range(1, 7)]
    starts, ends = (np.array(x, np.float32) for x in (times[:-1], times[1:]))
    umlaut = np.frombuffer("\u00fc ab".encode(), np.uint8).astype(np.int32)
    assert word_times(Bytes(), umlaut, starts, ends) == [TimedWord("\u00fc", 0.1, 0.3), TimedWord("ab", 0.4, 0.6)]
    spaces = np.array([0, 1, 0, 0, 2], np.int32)
    words = word_times(Characters(" ab"), spaces, starts, ends)
    assert words == [TimedWord("a", 0.2, 0.3), TimedWord("b", 0.5, 0.6)]
    assert word_times(Characters(" ab"), spaces[:0], starts[:0], ends[:0]) == []


def test_frames_of_models_in_seconds() -> None:
    sizes: dict[str, Any] = dict(width=8, depth=1, heads=2, head=TokenClasses(4))
    parakeet = Conformer(**sizes, front_end=LogMel(), subsampling=SeparableSubsampling(channels=8))
    assert FrameTimes.of(parakeet, 16_000) == FrameTimes(0.01, 0.08)
    waves = Conformer(**sizes, front_end=WaveformSamples(), subsampling=WaveformConvs())
    assert FrameTimes.of(waves, 16_000) == FrameTimes(1 / 16_000, 0.02)
    front_end = Differences(LogMel(rate=8000, window=200, hop=80, fft=256))
    decoder = speech2text(vocab=9, width=8, depth=1, heads=2, encoder={"front_end": front_end})
    assert isinstance(decoder, SpeechTransformer) and FrameTimes.of(decoder, 8000) == FrameTimes(0.01, 0.04)
    with pytest.raises(UserError, match=r"config\.model\.front_end: expected a front end with a hop.*got 'NoneType'"):
        FrameTimes.of(Conformer(**sizes), 8000)
