"""Utterances: recordings of speech with their words."""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from txjax.data.audio.audio_data import AudioData
from txjax.data.audio.audio_source import AudioSource, Plan
from txjax.data.audio.chained import Chained
from txjax.data.audio.text_normalization import TextNormalization
from txjax.data.audio.transcripts import SPACE, Transcripts, can_encode
from txjax.data.dataset import Example, Source, describing_field
from txjax.data.loading.rng import example_rng
from txjax.data.text.templates import Template
from txjax.data.tokenizers.tokenizer import Characters, Tokenizer
from txjax.errors import UserError
from txjax.types import spec


def _letters() -> Characters:
    return Characters(" '" + "".join(map(chr, range(ord("a"), ord("z") + 1))))


@dataclasses.dataclass
class Utterances(AudioData):
    """Recordings with their transcripts, for CTC and for decoders.

    An example: audio float32 [T] and audio_length int32 [], see `AudioData`; transcript int32 [L], the symbols of the
    words and 0 behind them; transcript_length int32 []; weights float32 [], 1, or 0 for one that is left out.

    If the tokenizer has a token that ends a text (`Tokenizer.roles`), also tokens int32 [L], the token that begins a
    text (where there is none, the one that ends it) and the symbols; targets int32 [L], the symbols and the end token;
    and weights are float32 [L], 1 for targets. With `prompt` its tokens begin a text, and have no weight as targets.

    Attributes:
      text: a format string over the set's features, as in `Pairs`.
      length: L. The longest transcript has at most as many symbols, the prompt and the end token included.
      tokenizer: the alphabet; the default has the space, the apostrophe and the small letters of English.
      normalization: of the transcripts.
      prompt: names of special tokens that a decoder reads before each text, such as `("<|startoftranscript|>",
        "<|en|>", "<|transcribe|>", "<|notimestamps|>")` of Whisper (Radford et al. 2023, 2.3). If (), the token that
        begins a text.
      chained: recordings chained into one utterance. If None, each is one.
    """

    text: str = describing_field("{text}")
    length: int = describing_field(128, at_least=1)
    tokenizer: Tokenizer = describing_field(factory=_letters)
    normalization: TextNormalization = describing_field(factory=TextNormalization)
    prompt: tuple[str, ...] = describing_field(())
    chained: Chained | None = None

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = super().spec() | {"transcript": spec((self.length,), "int32"), "transcript_length": spec((), "int32")}
        if self.end() is None:
            return specs
        for_decoder = {key: spec((self.length,), "int32") for key in ("tokens", "targets")}
        return specs | for_decoder | {"weights": spec((self.length,), "float32")}

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def end(self) -> int | None:
        """The token that ends a text; None if the tokenizer has none."""
        return next(iter(self.tokenizer.roles().eos), None)

    def opening(self) -> tuple[int, ...]:
        """The tokens that begin a text of a decoder; () if the tokenizer has no token that ends one."""
        roles = self.tokenizer.roles()
        if self.prompt:
            return tuple(map(self.tokenizer.special, self.prompt))
        return () if roles.beginning is None or not roles.eos else (roles.beginning,)

    def most_symbols(self) -> int:
        """The symbols of the longest transcript."""
        return self.length - len(self.opening())

    def check(self) -> None:
        super().check()
        self.tokenizer.check()
        self.normalization.check()
        self.template()
        if self.prompt and self.end() is None:
            raise UserError("data.prompt", "(), since the tokenizer has no token that ends a text", self.prompt)
        if self.most_symbols() < 1:
            raise UserError("data.length", f"more than {len(self.opening())}, the tokens of data.prompt", self.length)
        if self.chained is None:
            return
        self.chained.check()
        if not can_encode(self.tokenizer, SPACE):
            raise UserError("data.tokenizer", "one that has the space, since it is between the words of a chain")

    def drawn_lengths(self) -> str | None:
        return super().drawn_lengths() if self.chained is None else "chained"

    def template(self) -> Template:
        """The text of a record. Raises UserError if the set has no such features."""
        return Template(self.text, self.record_split.check(), "data.text")

    def open(self) -> Source:
        self.check()
        return UtteranceSource(self)


class UtteranceSource(AudioSource):
    """The utterances of a split, by index."""

    def __init__(self, data: Utterances):
        self._utterances = data
        self._transcripts = Transcripts(data.record_split, data.template(), data.normalization, data.tokenizer)
        self.gap = 0 if data.chained is None else round(data.chained.gap * data.rate)
        super().__init__(data, self._transcripts.faults, self._transcripts.sizes <= data.most_symbols())
        self.fingerprint = self.fingerprint_of(self.fingerprint, self._transcripts.fingerprint)

    def plan(self, index: int, rng: np.random.Generator) -> Plan:
        plan = super().plan(index, rng)
        chained = self._utterances.chained
        if chained is None:
            return plan
        numbers = [int(self.kept[clip]) for clip in chained.draw(index, len(self), rng)]
        chains = (Plan(tuple(numbers[:count]), plan.factor) for count in range(len(numbers), 1, -1))
        return next((chain for chain in chains if self._fits_whole(chain)), plan)

    def text(self, plan: Plan) -> str:
        """The normalised transcript of an example."""
        return SPACE.join(map(self._transcripts.text, plan.numbers))

    def transcripts(self) -> Iterator[str]:
        """The normalised transcripts of an epoch, without reading a recording."""
        return (self.text(self.plan(index, example_rng(0, 0, index))) for index in range(len(self)))

    def texts(self, indices: np.ndarray) -> list[tuple[str, str]]:
        """Where the first recording of some examples of an evaluation is, and their whole transcripts."""
        plans = [self.plan(int(index), example_rng(0, 0, int(index))) for index in indices]
        return [(self._recordings.place(plan.numbers[0]), self.text(plan)) for plan in plans]

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        plan = self.plan(index, rng)
        samples = self.waveform(plan)
        return self.empty() if samples is None else self.audio_keys(samples) | self._symbols(plan)

    def limits(self) -> str:
        return f"{super().limits()}, {self._utterances.most_symbols()} symbols (data.length)"

    def size_text(self, number: int) -> str:
        return f"{super().size_text(number)}, {self._transcripts.sizes[number]} symbols"

    def _fits_whole(self, plan: Plan) -> bool:
        """Whether a chain is short enough. Of one that isn't, as many recordings are taken as fit."""
        first, *others = plan.numbers
        symbols = int(self._transcripts.sizes[first] + self._transcripts.spaced_sizes[others].sum())
        return self.whole_size(plan) <= self._utterances.samples and symbols <= self._utterances.most_symbols()

    def _symbols(self, plan: Plan) -> Example:
        """The keys of the transcript of an example."""
        symbols = self._transcripts.symbols(plan.numbers)
        length = self._utterances.length
        example = {"transcript": _pad(symbols, length), "transcript_length": np.array(len(symbols), np.int32)}
        end = self._utterances.end()
        if end is None:
            return example | {"weights": np.array(1, np.float32)}
        row = np.array([*self._utterances.opening(), *symbols, end], np.int32)
        is_target = np.arange(1, len(row)) >= len(row) - 1 - len(symbols)
        return example | {
            "tokens": _pad(row[:-1], length),
            "targets": _pad(row[1:], length),
            "weights": _pad(is_target.astype(np.float32), length),
        }


def _pad(row: np.ndarray, length: int) -> np.ndarray:
    return np.pad(row, (0, length - len(row)))
