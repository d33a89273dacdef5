"""The rates of errors in words and in characters of speech recognition."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax.data import Dataset, Tokenizer
from txjax.decoding import BestPath, CTCSearch, LanguageModel, Rescoring, Search, ShallowFusion
from txjax.errors import UserError, require
from txjax.eval.audio.language_run import LanguageRun, normal_form
from txjax.eval.audio.rescorer import Rescorer
from txjax.eval.audio.transcribers import Transcribe, count_ngram, count_symbols, ctc_transcriber, decoder_transcriber
from txjax.eval.audio.word_errors import NAMES, RATES, count_errors, show_errors
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator
from txjax.eval.results import GIVEN, ID, Rows, digests
from txjax.objectives import Objective
from txjax.objectives.ctc import example_weights
from txjax.types import Batch, PyTree, config_field


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
      language: a run of a language model beside the search: `Rescoring` of the texts of a `PrefixBeam` or `Beam`, or
        `ShallowFusion` in a `Beam`. If None, there is none. The file says which step it was.
      count: the number of texts in the file. If None, all.
    """

    search: CTCSearch | Search = config_field(factory=BestPath)
    language: LanguageModel | None = None
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
            self._check_decoder(self.search, model, objective, tokenizer)
        elif not hasattr(objective, "blank"):
            hint = "a decoder's texts are found by search=Beam()"
            raise UserError("eval.search", "a search of a decoder", type(self.search).__name__, hint=hint)
        elif self.search.counted is not None:
            self.search.counted.check("eval.search.ngram", count_symbols(model, objective, self.data))
        self._open_language("eval")

    def _check_decoder(self, search: Search, model: Any, objective: Objective, tokenizer: Tokenizer) -> None:
        if not tokenizer.roles().eos:
            expected = "a tokenizer with an end token, for a decoder"
            raise UserError("eval.data.tokenizer", expected, type(tokenizer).__name__)
        search.check("eval.search", tokenizer.vocab())
        search.for_run("eval.search", model, objective)

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        return NAMES

    def start(self, context: Context) -> Evaluate:
        language = self._open_language(f"config.evals.{context.name}")
        transcribe, arrays = self._transcriber(context, language)
        rescoring = self.language if isinstance(self.language, Rescoring) else None
        rescorer = language and rescoring and Rescorer(context, language, rescoring, self.data)

        def read(state: PyTree, batch: Batch) -> PyTree:
            references = batch["transcript"], batch["transcript_length"]
            texts = transcribe(state, batch)
            texts = texts if rescorer else jax.tree.map(lambda x: x[:, :1], texts)
            return batch["id"], example_weights(batch) > 0, references, texts

        program = context.program(read)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            ids: list[int] = []
            references: list[str] = []
            outputs: list[str] = []
            state = variables, arrays
            batches = context.run_batches(program, state, context.source, self.max_batches)
            for numbers, has_weight, transcripts, texts in batches:
                best = rescorer(texts) if rescorer else texts
                ids += numbers[has_weight].tolist()
                references += self._decode(*(x[has_weight] for x in transcripts))
                outputs += self._decode(best.symbols[has_weight, 0], best.lengths[has_weight, 0])
            rows = {ID: np.array(ids, np.int64), GIVEN: digests(references), **count_errors(references, outputs)}
            scores = self.keep_and_rescore(context, rows)
            listing = list_worst(scores, rows, references, outputs, self.count)
            origin = f"{language.description}\n" if language else ""
            context.write("samples", step, "txt", (origin + listing).encode())
            return scores

        return evaluate

    def _open_language(self, where: str) -> LanguageRun | None:
        """The run of the language model, if there is one. Raises UserError if it doesn't suit search or data."""
        if self.language is None:
            return None
        self.language.check_search(f"{where}.language", self.search)
        data: Any = self.data
        run = LanguageRun.open(f"{where}.language.run", self.language)
        if isinstance(self.search, Search) and isinstance(self.language, ShallowFusion):
            run.check_tokens(data.tokenizer, self.search.end or data.tokenizer.roles().eos)
            run.check_length(data.length)
        else:
            run.check_letters(data)
        return run

    def _transcriber(self, context: Context, language: LanguageRun | None) -> tuple[Transcribe, PyTree]:
        """The function that makes texts, and the arrays that it reads besides the run's variables: the table of an
        n-gram, or the variables of a language model."""
        data: Any = self.data
        if isinstance(self.search, Search):
            search = self.search.for_run(f"config.evals.{context.name}.search", context.model, context.objective)
            search = dataclasses.replace(search, end=search.end or data.tokenizer.roles().eos)
            fused = language if isinstance(self.language, ShallowFusion) and self.language.weight else None
            variables = None if fused is None else fused.variables(context.whole)
            return decoder_transcriber(context, search, data, fused), variables
        ngram = self.search.counted
        table = None if ngram is None else context.put(count_ngram(ngram, context, data))
        return ctc_transcriber(context, self.search), table

    def _decode(self, symbols: Any, lengths: Any) -> list[str]:
        """The normalised texts of rows of symbols [N U] and their numbers [N], in numpy."""
        data: Any = self.data
        texts = [data.tokenizer.decode(row[:length].tolist()) for row, length in zip(symbols, lengths, strict=True)]
        return [normal_form(data, text) for text in texts]


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
