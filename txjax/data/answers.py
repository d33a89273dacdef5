"""Questions about a text whose answers are spans of it."""

import dataclasses
from pathlib import Path

import jax
import numpy as np

from txjax.data import disk_cache, records
from txjax.data.dataset import Example, Source
from txjax.data.sentences import Sentences, SentenceSource
from txjax.data.tokenizers import as_string
from txjax.data.tokens import BATCH
from txjax.types import UserError, spec

ABSENT = -1  # the token of the end of an answer that there is not


@dataclasses.dataclass
class Answers(Sentences):
    """`[CLS] question [SEP] context [SEP]` of each record, and the tokens of its first answer, as in SQuAD.

    (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2.) The answer's tokens are those that its characters overlap. The
    [CLS] is both ends of a question without an answer (Devlin et al. 2019, 4.3). A long pair loses tokens as in
    `Sentences`; if its answer is among them, its weight is 0.

    An example: as in `Sentences`, but weights float32 [], 1 or 0; start, end int32 [], the first and the last token of
    the answer.

    Attributes:
      features: the set's features of the question and of the context.
      answer_feature: the set's sequence of answers, each with `text` and `answer_start`, in characters of the context.
    """

    features: tuple[str, ...] = ("question", "context")
    answer_feature: str = "answers"

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        single = {"weights": spec((), "float32"), "start": spec((), "int32"), "end": spec((), "int32")}
        return super().spec() | single

    def check(self) -> None:
        super().check()
        if len(self.features) != 2:
            raise UserError("data.features", "the features of the question and of the context", self.features)
        features = records.check(self.name, self.split, self.data_dir)
        answers = records.check_feature("data.answer_feature", self.answer_feature, features, ("Sequence",)).feature
        if missing := {"text", "answer_start"} - set(getattr(answers, "keys", dict)()):
            raise UserError("data.answer_feature", "a sequence of text and answer_start", f"no {min(missing)}")
        self.tokenizer.offsets("")

    def open(self) -> Source:
        self.check()
        return AnswerSource(self)


class AnswerSource(SentenceSource):
    """The questions of a split, by record."""

    def __init__(self, text: Answers):
        super().__init__(text)
        self._ends = open_ends(text)
        self.fingerprint = f"{self.fingerprint} {text.answer_feature}"

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = super().example(index, epoch, rng)
        context = np.flatnonzero(example["types"])[:-1]  # without the last [SEP]
        start, end = self._ends[index].tolist()
        known = end < len(context)
        start, end = (context[[start, end]].tolist() if known else (0, 0)) if end != ABSENT else (0, 0)
        numbers = {"start": start, "end": end}
        return (
            example
            | {"weights": np.asarray(known, np.float32)}
            | {key: np.asarray(value, np.int32) for key, value in numbers.items()}
        )


def open_ends(text: Answers) -> np.ndarray:
    """The first and the last token of the first answer in each record's context, int32 [N 2], from the cache.

    Raises:
      UserError: an answer that is not in its context; names the record.
    """
    context = text.features[1]
    source = records.Records(text.name, text.split, text.data_dir, [context, text.answer_feature])
    made_from = {
        "data": source.name,
        "split": text.split,
        "features": [context, text.answer_feature],
        "records": source.fingerprint,
        "tokenizer": text.tokenizer.fingerprint(),
    }

    def ends(number: int, record: dict) -> tuple[int, int]:
        answers = record[text.answer_feature]
        if not len(answers["text"]):
            return ABSENT, ABSENT
        whole, answer, start = (
            as_string(record[context]),
            as_string(answers["text"][0]),
            int(answers["answer_start"][0]),
        )
        offsets = text.tokenizer.offsets(whole)
        inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < start + len(answer)))
        if whole[start : start + len(answer)] != answer or not len(inside):
            expected = f"answers that are in their contexts in {source.name}"
            raise UserError("data.answer_feature", expected, f"{answer[:40]!r} at {start} in {source.place(number)}")
        return int(inside[0]), int(inside[-1])

    def build(folder: Path) -> None:
        found = np.zeros((len(source), 2), np.int32)
        with disk_cache.progress(f"answers of {source.name} {text.split}", len(source)) as advance:
            for start in range(0, len(source), BATCH):
                read = source.read(start, min(start + BATCH, len(source)))
                found[start : start + len(read)] = [ends(number, record) for number, record in enumerate(read, start)]
                advance(len(read))
        np.save(folder / "ends.npy", found)

    return disk_cache.get_or_build("answers", made_from, build, lambda folder: np.load(folder / "ends.npy"))
