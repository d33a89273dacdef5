"""The rates of errors in words and in characters of speech recognition."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax.data import Dataset
from txjax.decoding import BestPath, CTCSearch, Search
from txjax.eval.audio.transcribers import Transcribe, count_ngram, count_symbols, ctc_transcriber, decoder_transcriber
from txjax.eval.audio.word_errors import NAMES, RATES, count_errors, show_errors
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator
from txjax.eval.results import GIVEN, ID, Rows, digests
from txjax.objectives import Objective
from txjax.objectives.ctc import example_weights
from txjax.types import Batch, PyTree, UserError, config_field, require


@dataclasses.dataclass
class ErrorRates(Evaluator):
    """Word and character error rates by jiwer: substitutions, deletions and insertions over the words (characters) of
    all transcripts. They may exceed 1.

    Texts are what the tokenizer of `data` decodes, in the form of its `normalization`, both the transcripts and what
    is recognised. An example counts as often as it has words; one without any adds insertions alone.

    Writes the rates and the texts with the most errors, aligned, in `samples/NAME/STEP.txt` of the workdir and in the
    report.

    Scores: `wer`, `wer_substitutions`, `wer_deletions`, `wer_insertions`, whose sum is `wer`; the same of `cer`.

    Attributes:
      data: recordings with transcripts, such as `Utterances`.
      search: how texts are found: of a model that is trained with CTC a `CTCSearch` (`BestPath`, `PrefixBeam`), of a
        decoder a `Search` (`Beam`), of one that is trained by `JointCTC` each of them, or `JointBeam`. An n-gram is
        counted from the transcripts of the training data.
      count: the number of texts in the file. If None, all.
    """

    search: CTCSearch | Search = config_field(factory=BestPath)
    count: int | None = config_field(20, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return "id", "transcript", "transcript_length", "weights"

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("jiwer", "jiwer", "eval", extra="audio")
        tokenizer = getattr(self.data, "tokenizer", None)
        if tokenizer is None:
            expected = "a data set with the tokenizer of its transcripts, such as Utterances"
            raise UserError("eval.data", expected, type(self.data).__name__)
        if isinstance(self.search, Search):
            if not tokenizer.roles().eos:
                expected = "a tokenizer with an end token, for a decoder"
                raise UserError("eval.data.tokenizer", expected, type(tokenizer).__name__)
            self.search.check("eval.search", tokenizer.vocab())
            self.search.for_run("eval.search", model, objective)
            return
        if not hasattr(objective, "blank"):
            hint = "a decoder's texts are found by search=Beam()"
            raise UserError("eval.search", "a search of a decoder", type(self.search).__name__, hint=hint)
        if self.search.counted is not None:
            self.search.counted.check("eval.search.ngram", count_symbols(model, objective, self.data))

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        return NAMES

    def start(self, context: Context) -> Evaluate:
        transcribe, table = self._transcriber(context)

        def read(state: PyTree, batch: Batch) -> PyTree:
            references = batch["transcript"], batch["transcript_length"]
            return batch["id"], example_weights(batch) > 0, references, transcribe(state, batch)

        program = context.program(read)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            ids: list[int] = []
            references: list[str] = []
            outputs: list[str] = []
            state = variables, table
            for numbers, has_weight, *texts in context.run_batches(program, state, context.source, self.max_batches):
                ids += numbers[has_weight].tolist()
                for column, arrays in zip((references, outputs), texts, strict=True):
                    column += self._decode(*(x[has_weight] for x in arrays))
            rows = {ID: np.array(ids, np.int64), GIVEN: digests(references), **count_errors(references, outputs)}
            scores = self.keep_and_rescore(context, rows)
            listing = list_worst(scores, rows, references, outputs, self.count)
            context.write("samples", step, "txt", listing.encode())
            return scores

        return evaluate

    def _transcriber(self, context: Context) -> tuple[Transcribe, jax.Array | None]:
        """The function that makes texts, and the table of an n-gram that it reads."""
        data: Any = self.data
        if isinstance(self.search, Search):
            search = self.search.for_run(f"config.evals.{context.name}.search", context.model, context.objective)
            search = dataclasses.replace(search, end=search.end or data.tokenizer.roles().eos)
            return decoder_transcriber(context, search, data), None
        ngram = self.search.counted
        table = None if ngram is None else context.put(count_ngram(ngram, context, data))
        return ctc_transcriber(context, self.search), table

    def _decode(self, symbols: np.ndarray, lengths: np.ndarray) -> list[str]:
        """The normalised texts of rows of symbols."""
        data: Any = self.data
        texts = [data.tokenizer.decode(row[:length].tolist()) for row, length in zip(symbols, lengths, strict=True)]
        normalize = getattr(data, "normalization", None)
        return texts if normalize is None else [normalize(text) for text in texts]


def list_worst(
    scores: dict[str, float], rows: Rows, references: list[str], outputs: list[str], count: int | None
) -> str:
    """The content of the file: the rates, then the texts with the most errors, those in words before others."""
    lines = []
    for rate in RATES:
        parts = [
            f"{name.removeprefix(rate + '_')} {scores[name]:.4f}" for name in scores if name.startswith(f"{rate}_")
        ]
        lines += [f"{rate} = {scores[rate]:.4f} ({', '.join(parts)})"] if rate in scores else []
    parts = ["\n".join(lines)]
    order = np.lexsort((rows[ID], -rows["cer"], -rows["wer"]))
    for row in order[rows["cer"][order] > 0][:count]:
        words, characters = (f"{rows[rate][row]:.0f} of {rows[rate + '_count'][row]:.0f}" for rate in RATES)
        heading = f"example {rows[ID][row]}: errors in {words} words, {characters} characters"
        parts.append(f"{heading}\n{show_errors(references[row], outputs[row])}")
    return "\n\n".join(parts) + "\n"
