"""The cache of the tokens of a split's questions, and of their answers.

A cache is a folder `questions/KEY` under the cache directory:

    tokens.npy     int32: all tokens, question after question, round after round
    documents.npy  int64: the start of each question in these, and the end of the last one
    answers.json   the answer of each question
"""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
from jaxtyping import Int32, Int64

from txjax.data.loading import disk_cache
from txjax.data.multimodal.questions import MakeQuestion, Questions
from txjax.data.sources.record_source import Records
from txjax.data.tokenizers.tokenizer import Tokenizer

LAYOUT = 2  # version of the files; caches of other versions are not used
BATCH = 128  # records encoded at a time, which bounds the memory


@dataclasses.dataclass(frozen=True)
class QuestionTokens:
    """The questions of a split: of all records in the first round, then of all in the second one, and so on.

    Attributes:
      tokens: of all questions, one after the other, on disk.
      documents: the start of each question's tokens, and the end of the last one's.
      answers: the answers.
      fingerprint: a hash of the records, the questions and the tokenizer.
    """

    tokens: Int32[np.ndarray, "T"]
    documents: Int64[np.ndarray, "N+1"]
    answers: tuple[str, ...]
    fingerprint: str

    @property
    def sizes(self) -> Int64[np.ndarray, "N"]:
        """The number of tokens of each question."""
        return np.diff(self.documents)

    def ids(self, number: int) -> Int32[np.ndarray, "L"]:
        """The tokens of a question."""
        return self.tokens[slice(*self.documents[number : number + 2].tolist())]


def open_questions(
    records: Records, split: str, questions: Questions, make: MakeQuestion, tokenizer: Tokenizer, rounds: int
) -> QuestionTokens:
    """The questions of a split from the cache; builds it if it is missing or damaged.

    Args:
      records: with the features that the questions read.
      questions: what makes them, for the cache's key.
      make: the question of a record.
      rounds: in round r, record n is asked what its number n + r gives.
    """
    made_from = {
        "layout": LAYOUT,
        "split": split,
        "records": records.fingerprint,
        "questions": repr(questions),
        "tokenizer": tokenizer.fingerprint(),
        "rounds": rounds,
    }
    build = functools.partial(_build, records, split, make, tokenizer, rounds)
    return disk_cache.get_or_build("questions", made_from, build, _load)


def _build(records: Records, split: str, make: MakeQuestion, tokenizer: Tokenizer, rounds: int, folder: Path) -> None:
    """Encodes the questions of all records into `folder`."""
    tokens: list[np.ndarray] = []
    answers: list[str] = []
    starts = [(turn, start) for turn in range(rounds) for start in range(0, len(records), BATCH)]
    with disk_cache.progress(f"questions of {records.name} {split}", rounds * len(records)) as advance:
        for turn, start in starts:
            batch = records.read(start, min(start + BATCH, len(records)))
            turns = [make(number, record) for number, record in enumerate(batch, start + turn)]
            tokens += tokenizer.encode_batch([turn.question for turn in turns])
            answers += [turn.answer or "" for turn in turns]
            advance(len(turns))
    np.save(folder / "tokens.npy", np.concatenate(tokens).astype(np.int32))
    np.save(folder / "documents.npy", np.cumsum([0, *map(len, tokens)], dtype=np.int64))
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


def _load(folder: Path) -> QuestionTokens:
    """Opens a cache. Raises ValueError or OSError if it is damaged."""
    tokens = np.asarray(np.load(folder / "tokens.npy", mmap_mode="r"))
    documents = np.load(folder / "documents.npy")
    answers = tuple(json.loads((folder / "answers.json").read_text(encoding="utf-8")))
    if len(tokens) != documents[-1] or len(answers) != len(documents) - 1:
        raise ValueError("documents.npy doesn't match the other files")
    return QuestionTokens(tokens, documents, answers, folder.name)
