"""Answers to the requests of lm-evaluation-harness, its tasks during training, and by the command."""

import dataclasses
import importlib.util
import json
import signal
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import tokenizers

from txjax import tree
from txjax.data import Bytes, Characters, NextTokenWindows, Pairs, TokenizerFolder
from txjax.data.tokenizers.special_tokens import Roles
from txjax.eval import Harness
from txjax.eval.harness.harness_library import OWN
from txjax.eval.harness.harness_texts import first_of, texts_of
from txjax.eval.harness.local_documents import read
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.nn import Learned, Untied
from txjax.objectives import NextToken
from txjax.train.run.workdir import read_config
from txjax.types import UserError

from helpers import runs
from helpers.arrays import forward, variables
from helpers.evaluations import Bigrams, answering, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "answers to lm-evaluation-harness: likelihoods by the whole forward pass for any batch size, greedy texts up to a "
    "stop, five tasks by the command, after a kill, errors",
)

pytest.importorskip("lm_eval", reason="pip install '.[harness]'")

WINDOW = 24
TEXT = NextTokenWindows("txjax_python_text", "validation", length=WINDOW)
PAIRS = Pairs("txjax_python_text", "validation", None, "{path}", "{path}", source_length=WINDOW, length=WINDOW)
WRITER = Decoder(vocab=256, width=8, depth=1, heads=2)
TRANSLATOR = EncoderDecoder(vocab=258, width=8, depth=1, heads=2, head=Untied())
ONE = np.zeros((1, 2), np.int32)
START, END = 256, 257
LONG = "a text that is longer than the window of the model"
ASKED = (("a dog ", "runs"), ("", "now"), (LONG, " is"), (" ", "x"))


def of(model: Any) -> Any:
    given = [ONE] if model is WRITER else [ONE, ONE]
    return jax.tree.map(lambda x: jnp.asarray(8 * (x - 0.1)), variables(model, *given))  # texts that differ


def requests(*each: tuple[Any, ...]) -> list[Any]:
    return [types.SimpleNamespace(args=args) for args in each]


def likelihood(model: Any, params: Any, context: str, continuation: str) -> tuple[float, bool]:
    """By the whole forward pass, of bytes; a decoder's text is cut to the window."""
    apply, targets = forward(model), [*continuation.encode()]
    if model is WRITER:
        ids = [*(context.encode() or b"\n"), *targets][-WINDOW - 1 :]
        logits = apply(params, np.array([ids[:-1]], np.int32))[0, -len(targets) :]
    else:
        source = ([*context.encode(), END] if context else [END])[-WINDOW:]
        logits = apply(params, np.array([[START, *targets[:-1]]], np.int32), np.array([source], np.int32))[0]
    chances = scipy.special.log_softmax(np.asarray(logits, np.float64), axis=-1)
    greedy = chances.argmax(-1) == np.array(targets)
    return chances[np.arange(len(targets)), targets].sum(), greedy.all()


@pytest.mark.slow
@pytest.mark.parametrize("model", [WRITER, TRANSLATOR], ids=["decoder", "encoder-decoder"])
def test_likelihoods_are_those_of_the_whole_forward_pass(model):
    params, data = of(model), TEXT if model is WRITER else PAIRS
    want = []
    for context, continuation in ASKED:
        end = len(context.rstrip())
        want.append(likelihood(model, params, context[:end], context[end:] + continuation))
    found = []
    for size in (1, 4):
        with answering(model, params, Harness(data, batch_size=size)) as answers:
            found.append(answers.loglikelihood(requests(*ASKED)))
            (rolled,) = answers.loglikelihood_rolling(requests((LONG,)))
    for got in found:
        np.testing.assert_allclose([nats for nats, _ in got], [nats for nats, _ in want], rtol=1e-4)
        assert [greedy for _, greedy in got] == [greedy for _, greedy in want]
    first, second = LONG[:WINDOW], LONG[WINDOW : 2 * WINDOW]
    if model is WRITER:  # the next windows have as much context as fits
        parts = [likelihood(model, params, "", first), likelihood(model, params, first[-1], second)]
        rest = LONG[2 * WINDOW :]
        parts.append(likelihood(model, params, LONG[-WINDOW - 1 : -len(rest)], rest))
        assert rolled == pytest.approx(sum(nats for nats, _ in parts), rel=1e-4)


def greedy(model: Any, params: Any, context: str, count: int) -> str:
    """The text that the whole forward pass gives; a decoder's context is cut to leave space for it."""
    apply, source = forward(model), np.zeros((1, WINDOW), np.int32)
    if model is WRITER:
        text = [*context.encode()][-(WINDOW - count) :]
    else:
        text, source = [START], np.array([[*context.encode(), END]], np.int32)
    given = len(text)
    for _ in range(count):
        whole = np.zeros((1, WINDOW), np.int32)
        whole[0, : len(text)] = text
        logits = apply(params, whole) if model is WRITER else apply(params, whole, source)
        text.append(int(logits[0, len(text) - 1].argmax()))
    text = text[given:]
    return Bytes().decode(i for i in text[: text.index(END) if END in text else None] if i != START)


@pytest.mark.parametrize("model", [WRITER, pytest.param(TRANSLATOR, marks=pytest.mark.slow)], ids=["decoder", "pairs"])
def test_generated_texts_are_greedy_up_to_a_stop(model):
    params, contexts = of(model), ["a dog", LONG if model is WRITER else "the red cat"]
    with answering(model, params, Harness(TEXT if model is WRITER else PAIRS, batch_size=2)) as answers:
        options = {"until": [], "max_gen_toks": 40}
        whole = answers.generate_until(requests(*((context, options) for context in contexts)))
        stop = whole[0][3:5]
        cut = answers.generate_until(requests((contexts[0], options | {"until": ["", "never", stop]})))
        with pytest.raises(UserError, match=r"eval.tasks: .* got 'num_beams=2'"):
            answers.generate_until(requests(("a", {"num_beams": 2})))
        count = answers.texts.longest()
    assert cut == [whole[0][: whole[0].index(stop)]]
    assert whole == [greedy(model, params, context, count) for context in contexts] and whole[0] != whole[1]


@pytest.mark.slow
def test_texts_are_drawn_by_the_options_of_a_task():
    with answering(WRITER, of(WRITER), Harness(TEXT)) as answers:
        drawn = {"max_gen_toks": 40, "do_sample": True, "temperature": 9.0, "top_k": 9}
        texts = [answers.generate_until(requests(("a dog", drawn), ("a dog", drawn))) for _ in range(2)]
        (sure,) = answers.generate_until(requests(("a dog", drawn | {"do_sample": False, "temperature": 0.0})))
    assert texts[0] == texts[1] and len({*texts[0], sure}) == 3


def test_a_continuation_longer_than_the_window_is_refused():
    with answering(Bigrams(), {"params": {"table": jnp.zeros((257, 257))}}, Harness(TEXT, window=4)) as answers:
        assert answers.loglikelihood(requests(("", "abcd")))[0][0] == pytest.approx(-4 * np.log(257))
        with pytest.raises(UserError, match=r"eval.window: expected at least 5, got 4; an answer of a task has 5"):
            answers.loglikelihood(requests(("a", "bcdef")))


def test_an_answer_that_is_the_end_of_its_contexts_token_is_refused(tmp_path):
    pairs = ["A n", "An s", "w e", "we r", "Ans wer"]
    pieces = [*"Answer", *(pair.replace(" ", "") for pair in pairs)]
    model = tokenizers.models.BPE(
        {p: i for i, p in enumerate(dict.fromkeys(pieces))}, [(*pair.split(),) for pair in pairs]
    )
    library = tokenizers.Tokenizer(model)
    library.add_special_tokens(["</s>"])
    library.save(str(tmp_path / "tokenizer.json"))
    texts = texts_of(dataclasses.replace(TEXT, tokenizer=TokenizerFolder(str(tmp_path))), WRITER, "eval")
    assert texts.pair("Ans", "s") == ([pieces.index("Ans")], [pieces.index("s")])
    with pytest.raises(
        UserError, match="eval.tasks: .* tokens of their own, got \"'wer' after 'Ans', whose last token"
    ):
        texts.pair("Ans", "wer")


def test_a_special_token_stops_a_text():
    table = jnp.zeros((258, 258)).at[[97, 98, 257, 99], [98, 257, 99, 100]].set(9.0)
    data = dataclasses.replace(TEXT, tokenizer=Bytes(("<|endoftext|>", "<|im_end|>")))
    with answering(Bigrams(vocab=258), {"params": {"table": table}}, Harness(data)) as answers:
        stops = [{"until": until, "max_gen_toks": 4} for until in (["<|im_end|>", "never"], ["never"])]
        texts = answers.generate_until(requests(*(("a", options) for options in stops)))
    assert texts == ["b", "bcd"]  # special tokens are no text


def test_where_a_text_begins_and_ends():
    assert Bytes().roles() == Roles() and Roles().beginning is None
    assert Bytes(("<|endoftext|>",)).roles().beginning == 256
    assert Characters("ab", specials=("</s>", "<s>")).roles() == Roles(bos=3, eos=(2,))
    learned = Decoder(vocab=256, width=8, depth=1, heads=2, positions=Learned(max_length=7))
    with answering(learned, {}, Harness(TEXT)) as answers:
        assert (answers.texts.window, answers.texts.prefix, answers.texts.end) == (7, 10, ())
    with pytest.raises(
        UserError, match=r"eval.data: expected a tokenizer with one of the tokens .* or with the line feed"
    ):
        first_of(Characters("ab"), "eval.data")


def test_the_documents_are_those_of_their_script():
    spec = importlib.util.spec_from_file_location("make_tasks", OWN / "make_tasks.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, content in script.file_contents().items():
        assert (OWN / name).read_text() == content
    splits = read("rules.jsonl", str(OWN / "rules.yaml"), version=1)
    assert {name: len(split) for name, split in splits.items()} == {"train": 8, "test": 48}


FIVE = {
    "txjax_arithmetic": {"acc"},
    "txjax_copying": {"exact_match"},
    "txjax_keywords": {"acc", "perplexity"},
    "txjax_prose": {"word_perplexity", "byte_perplexity", "bits_per_byte"},
    "txjax_rules": {"acc", "acc_norm"},
}
PLAIN = {f"{task}/{metric}" for task, metrics in FIVE.items() for metric in metrics}


@pytest.mark.slow
def test_the_five_tasks_by_the_command(straight_run, tmp_path):
    words = ("evaluate", f"--workdir={straight_run}", "--limit=3", "--window=40")
    code, out, err = runs.command(*words, "--tasks=txjax", "--json")
    assert (code, err) == (0, "")
    scores = {key.removeprefix("eval/harness/"): value for key, value in json.loads(out).items() if "/" in key}
    plain = {name for name in scores if not name.endswith("_stderr")}
    assert plain == PLAIN
    assert {f"{name}_stderr" for name in plain if "/acc" in name} < set(scores)
    assert scores["txjax_prose/bits_per_byte"] == pytest.approx(np.log2(scores["txjax_prose/byte_perplexity"]))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "letters.yaml").write_text((OWN / "copying.yaml").read_text().replace("txjax_copying", "letters"))
    (folder / "copying.jsonl").write_text((OWN / "copying.jsonl").read_text())
    flags = ("--tasks=letters,txjax_rules", f"--include-path={folder}", "--num-fewshot=0")
    code, out, err = runs.command(*words, *flags)
    assert (code, err) == (0, "") and "letters" in out and "acc_norm" in out and "stderr" in out


@pytest.mark.slow
def test_an_unknown_task_is_one_line(straight_run):
    code, _, err = runs.command("evaluate", f"--workdir={straight_run}", "--tasks=txjax,helaswag")
    said = "--tasks: expected tasks, groups or tags of lm-evaluation-harness, got 'helaswag'; did you mean hellaswag"
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_five_tasks_for_an_encoder_decoder():
    all_of = measure(TRANSLATOR, NextToken(), Harness(PAIRS, limit=2), of(TRANSLATOR))
    assert {name for name in all_of if "_stderr" not in name} == PLAIN
    few = measure(TRANSLATOR, NextToken(), Harness(PAIRS, batch_size=2, max_batches=1), of(TRANSLATOR))
    assert few == pytest.approx(all_of, rel=1e-3)


def test_mistakes_are_one_line(straight_run, tmp_path, monkeypatch):
    (tmp_path / "broken.yaml").write_text("task: broken\ndataset_path: json\ndataset_kwargs: {data_files: no.json}\n")
    for flags, said in (
        ("--tasks=,", "--tasks: expected at least one task"),
        ("--tasks=txjax --limit=0", "--limit: expected at least 1, got 0"),
        ("--tasks=txjax --include_path=nowhere", "--include_path: expected a folder of tasks, got 'nowhere'"),
        (f"--tasks=broken --include_path={tmp_path}", "config.evals.harness.tasks: expected tasks whose documents can"),
        ("--window=9", "--window: expected --tasks too, got 9"),
    ):
        code, _, err = runs.command("evaluate", f"--workdir={straight_run}", *flags.split())
        assert code == 2 and said in err and len(err.strip().splitlines()) == 1, (flags, err)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "lm_eval" else found(name))
    code, _, err = runs.command("evaluate", f"--workdir={straight_run}", "--tasks=txjax")
    assert code == 2 and "--tasks: expected the package lm_eval to be installed" in err and "'txjax[harness]'" in err


@pytest.mark.slow
def test_scores_of_a_killed_run_are_those_of_an_undisturbed_one(tmp_path):
    tasks = 'Harness(data=held_out, tasks=("txjax_arithmetic", "txjax_copying"), limit=4, window=40, every_steps=10)'
    path = tmp_path / "small.py"
    path.write_text(
        runs.CONFIG.replace("import Evaluation", "import Evaluation, Harness")
        .replace('evals={"valid"', f'evals={{"tasks": {tasks}, "valid"')
        .replace("num_steps=40", "num_steps=30")
    )
    assert runs.train_here(path, tmp_path / "whole")[0] == 0
    process = runs.start(path, tmp_path / "killed")
    runs.wait_for_step(process, tmp_path / "killed", 15)
    process.send_signal(signal.SIGKILL)
    runs.ended([process])
    assert len(runs.rows(tmp_path / "killed")) < 30
    assert runs.train_here(path, tmp_path / "killed")[0] == 0
    rows = runs.rows(tmp_path / "whole")
    assert runs.rows(tmp_path / "killed") == rows
    scored = [row for row in rows if "eval/tasks/txjax_arithmetic/acc_stderr" in row]
    assert [row["step"] for row in scored] == [10, 20, 30]


def test_code_of_a_folder_runs_only_if_the_command_names_it(straight_run, tmp_path):
    run = read_config(straight_run, ())
    (valid,) = run.evals.values()
    run.evals = {"x": Harness(valid.data, include_path=str(tmp_path))}
    (tmp_path / "config.json").write_text(json.dumps(tree.to_json(run)))
    code, _, err = runs.command("evaluate", f"--workdir={tmp_path}")
    assert code == 2 and "config.evals.x.include_path: expected the folder that --include_path names" in err
