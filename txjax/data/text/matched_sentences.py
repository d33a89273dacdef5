"""Pairs of sentences to pretrain on: both of one record, or of two."""

import dataclasses

import jax
import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.text.sentences import Sentences, SentenceSource
from txjax.errors import UserError
from txjax.types import spec


@dataclasses.dataclass
class MatchedSentences(Sentences):
    """BERT's next-sentence prediction for data of pairs: is the second sentence this record's, or another one's?

    As with the stretches of documents in `SentencePairs` (Devlin et al. 2019, 3.1), with probability 1/2 the second
    sentence is that of another record, drawn uniformly, in every epoch another one.

    An example: as in `Sentences`; and next_sentence int32 [], 1 if both sentences are one record's, 0 if they are of
    two, -1 if there is one feature only: such an example has no such loss, and can be mixed with pairs.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"next_sentence": spec((), "int32")}

    def check(self) -> None:
        super().check()
        if self.buckets:
            raise UserError("data.buckets", "(), since the second sentence changes", self.buckets)

    def open(self) -> Source:
        self.check()
        return MatchedSource(self)


class MatchedSource(SentenceSource):
    """The sentences of a split, by the record of the first one."""

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        first, *rest = self._tokens
        other = (index + int(rng.integers(1, max(len(self), 2)))) % len(self)
        matched = rng.random() < 0.5 or other == index
        texts = [first.text(index), *(tokens.text(index if matched else other) for tokens in rest)]
        return self.row(self.fitting(texts)) | {"next_sentence": np.array(matched if rest else -1, np.int32)}
