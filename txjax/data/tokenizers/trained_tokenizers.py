"""Tokenizers trained on a data set by the `tokenizers` library, and cached (`tokenizer_cache`)."""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import RecordSource, RecordSplit
from txjax.data.sources.source_of import source_field, source_of
from txjax.data.tfds import records
from txjax.data.tfds.text_sequences import text_sequences
from txjax.data.tokenizers.library_tokenizer import Library, LibraryTokenizer
from txjax.data.tokenizers.tokenizer import special_index
from txjax.data.tokenizers.tokenizer_cache import open_trained
from txjax.data.tokenizers.vocabulary_training import Pass, no_characters, train_tokenizer
from txjax.errors import UserError
from txjax.types import config_field

NEVER = -1000.0  # log-probability of a Unigram piece that must never be used


@dataclasses.dataclass
class Algorithm:
    """Base class of the algorithms that learn a vocabulary and segment text with it."""

    # The special token for text outside the vocabulary; None if there is no such text.
    unknown: ClassVar[str | None] = "[UNK]"

    def train(self, texts: Pass, size: int, specials: list[str]) -> Any:
        """A `tokenizers.Tokenizer` with at most `size` tokens (more if the alphabet needs more), specials first.

        The same texts give the same tokenizer.

        Raises:
          UserError: a size that is too small for the characters of the texts, or, unless no text is unknown, texts
            without any.
        """
        raise NotImplementedError


@dataclasses.dataclass
class BPE(Algorithm):
    """Byte-pair encoding of bytes, as GPT-2's (Sennrich et al. 2016; Radford et al. 2019, 2.2): no text is unknown.

    Attributes:
      min_count: how often a pair must occur to be merged.
    """

    min_count: int = config_field(2, at_least=1)

    unknown = None

    def train(self, texts: Pass, size: int, specials: list[str]) -> Any:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=self.min_count,
            special_tokens=specials,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        train_tokenizer(tokenizer, texts, trainer)
        return tokenizer


@dataclasses.dataclass
class WordPiece(Algorithm):
    """BERT's WordPiece (Devlin et al. 2019): `##` before pieces inside a word, text split as in BERT's code.

    Attributes:
      lowercase: whether text becomes lower case without accents ("uncased").
      alphabet: the number of characters, the most frequent, that become pieces; words with others are unknown.
      min_count: how often a pair must occur to be merged.
    """

    lowercase: bool = True
    alphabet: int = config_field(1000, at_least=1)
    min_count: int = config_field(2, at_least=1)

    def train(self, texts: Pass, size: int, specials: list[str]) -> Any:
        """Trains in two passes. The library numbers the `##x` of single characters in the order of a hash table, and so
        breaks ties between pairs differently each time; the first pass finds them and fixes their order for the second.
        """
        from tokenizers import Tokenizer

        characters: collections.Counter[str] = collections.Counter()
        normalizer = self._untrained_tokenizer().normalizer  # a tokenizer's own is locked during training

        def count_characters() -> Iterator[list[str]]:
            for batch in texts():
                for text in batch:
                    characters.update(normalizer.normalize_str(text))
                yield batch

        tokenizer = self._untrained_tokenizer()
        train_tokenizer(tokenizer, count_characters, self._trainer(0))
        vocab = tokenizer.get_vocab()
        if not vocab:
            raise no_characters()
        ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
        alphabet = sorted([c for c, _ in ranked if c in vocab][: self.alphabet])
        pieces = [f"##{c}" for c in alphabet if f"##{c}" in vocab]
        tokenizer = self._untrained_tokenizer()
        trainer = self._trainer(
            size, special_tokens=specials + pieces, initial_alphabet=alphabet, limit_alphabet=len(alphabet)
        )
        train_tokenizer(tokenizer, texts, trainer)
        written = json.loads(tokenizer.to_str())
        written["added_tokens"] = written["added_tokens"][: len(specials)]  # the pieces are not special tokens
        return Tokenizer.from_str(json.dumps(written))

    def _untrained_tokenizer(self) -> Any:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

        tokenizer = Tokenizer(models.WordPiece(unk_token=self.unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=self.lowercase)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        return tokenizer

    def _trainer(self, size: int, **more: Any) -> Any:
        from tokenizers import trainers

        return trainers.WordPieceTrainer(vocab_size=size, min_frequency=self.min_count, show_progress=False, **more)


@dataclasses.dataclass
class Unigram(Algorithm):
    """The most likely segmentation under a unigram model (Kudo 2018), `▁` for spaces, normalized as by SentencePiece.

    The library sums probabilities in the order of a hash table, so its scores differ in the last digits each time, and
    it ranks the rarest characters in that order. For equal results, scores are rounded to four decimals, and the
    characters below all longer pieces share one score.
    """

    def train(self, texts: Pass, size: int, specials: list[str]) -> Any:
        from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=size,
            special_tokens=specials,
            unk_token=self.unknown,
            initial_alphabet=sorted(set("".join(specials))),  # so that the text "[MASK]" needs no unknown token
            show_progress=False,
        )
        train_tokenizer(tokenizer, texts, trainer)
        written = json.loads(tokenizer.to_str())
        if any(score is None for _, score in written["model"]["vocab"]):  # not a number: no piece occurs
            raise no_characters()
        scores = {piece: round(score, 4) for piece, score in written["model"]["vocab"][len(specials) :]}
        least = min((score for piece, score in scores.items() if len(piece) > 1), default=NEVER)
        rare = [piece for piece, score in scores.items() if score < least]
        scores |= dict.fromkeys(rare, max((scores[piece] for piece in rare), default=least))
        pieces = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        written["model"]["vocab"] = [(name, NEVER) for name in specials] + pieces
        return Tokenizer.from_str(json.dumps(written))


@dataclasses.dataclass
class Trained(LibraryTokenizer):
    """A tokenizer trained on the texts of a data set when it is first needed, and cached.

    `vocab()` is `size`, which needs no data; a small text may use fewer ids, with a warning.

    Attributes:
      algorithm: BPE, WordPiece or Unigram.
      size: the number of ids, including the specials.
      name, split, data_dir, source: the data set that it is trained on. They have no default from the data that it
        tokenizes, so that an evaluation doesn't train another tokenizer.
      features: the features of that set, texts or sequences of words or texts, such as `captions/text`.
      specials: names of the tokens with the ids 0, 1, ...; encoding never gives them.
    """

    algorithm: Algorithm = config_field(factory=BPE)
    size: int = config_field(8192, at_least=2)
    name: str | None = None
    split: str = "train"
    data_dir: str | None = None
    source: RecordSource | str | None = source_field()
    features: tuple[str, ...] = ("text",)
    specials: tuple[str, ...] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

    @property
    def record_split(self) -> RecordSplit:
        """The split of the source that it is trained on."""
        return RecordSplit(source_of(self), self.split)

    def check(self) -> None:
        unknown = self.algorithm.unknown
        if unknown:
            special_index(unknown, self.specials)
        if len(set(self.specials)) < len(self.specials):
            raise UserError("data.tokenizer.specials", "distinct names", self.specials)
        least = len(self.specials) + (1 if unknown else 256)
        if self.size < least:
            raise UserError("data.tokenizer.size", f"at least {least}, for the alphabet and the specials", self.size)
        try:
            features = self.record_split.check()
            texts = {name: feature for name, feature in features.items() if type(feature).__name__ == "Text"}
            sequences = {name: features[texts.feature] for name, texts in text_sequences(features).items()}
            for feature in self.features:
                records.check_feature("data.features", feature, texts | sequences, ("Text", "Sequence"))
        except UserError as error:
            raise error.with_path("data.tokenizer", "data") from None

    def vocab(self) -> int:
        return self.size

    def special(self, name: str) -> int:
        return special_index(name, self.specials)

    def special_ids(self) -> frozenset[int] | None:
        return frozenset(range(len(self.specials)))

    def special_names(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.specials)}

    def vocabulary_digest(self) -> str:
        return hashlib.blake2b(("Trained" + self.load().whole.to_str()).encode(), digest_size=16).hexdigest()

    def load(self) -> Library:
        key = repr(
            (
                dataclasses.replace(self, parse_specials=False),
                disk_cache.cache_dir(),
                None if self.name is None else records.folder(self.name, self.data_dir),
            )
        )
        if key not in _opened:
            _opened[key] = open_trained(self)
        return _opened[key]


_opened: dict[str, Library] = {}  # by settings and folders, so that each is read once
