"""Commands that need only a workdir."""

import json
import shutil

import jax
import pytest

from txjax.__main__ import main


def ask(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("devices", [1, pytest.param(8, marks=pytest.mark.mesh)])
def test_evaluate_gives_the_score_of_the_log(straight_run, tmp_path, capsys, devices):
    workdir = shutil.copytree(straight_run, tmp_path / "run")  # evaluations write results into it
    assert jax.device_count() == devices
    code, out, err = ask(capsys, "evaluate", f"--workdir={workdir}", "--json")
    assert code == 0, err
    scores = json.loads(out)
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert scores["step"] == 40
    assert scores["eval/valid/loss"] == pytest.approx(rows[-1]["eval/valid/loss"], rel=1e-5)
    code, out, _ = ask(capsys, "evaluate", f"--workdir={workdir}", "--step=best")
    assert code == 0 and "valid" in out


def test_generate_is_a_function_of_its_flags(straight_run, capsys):
    words = ("generate", f"--workdir={straight_run}", "--prompt=def ", "--length=12", "--json", "--samples=2")
    code, out, err = ask(capsys, *words)
    assert code == 0, err
    texts = json.loads(out)["texts"]
    assert len(texts) == 2 and texts[0] != texts[1]
    assert json.loads(ask(capsys, *words)[1])["texts"] == texts
    assert json.loads(ask(capsys, *words, "--seed=1")[1])["texts"] != texts


def test_generate_shows_the_text_while_it_is_written(straight_run, capsys):
    words = ("generate", f"--workdir={straight_run}", "--prompt=def ", "--length=70")
    code, out, err = ask(capsys, *words)
    assert (code, err) == (0, "")
    assert out == f"def {json.loads(ask(capsys, *words, '--json')[1])['texts'][0]}\n"


def test_a_prompt_without_a_token(straight_run, capsys):
    code, out, err = ask(capsys, "generate", f"--workdir={straight_run}", "--prompt=")
    assert (code, out) == (
        2,
        "",
    ) and "--prompt: expected at least one token, got ''; a decoder continues a text" in err


def test_damaged_steps_are_reported_and_skipped(straight_run, tmp_path, capsys, caplog):
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    for step in (40, 30):
        record = workdir / "checkpoints" / str(step) / "record.json"
        record.write_bytes(record.read_bytes().replace(b"step", b"stop", 1))
    for words in (["generate", "--length=3", "--json"], ["evaluate", "--json"]):
        caplog.clear()
        code, out, _ = ask(capsys, *words, f"--workdir={workdir}")
        assert code == 0 and json.loads(out)["step"] == 20
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            f"checkpoint {step} is damaged (record.json was changed); looking at the one before" for step in (40, 30)
        ]


def test_checkpoint_list_and_verify(straight_run, capsys):
    code, out, _ = ask(capsys, "checkpoint", "list", f"--workdir={straight_run}", "--json")
    assert code == 0 and [row["step"] for row in json.loads(out)] == [20, 30, 40]
    code, out, _ = ask(capsys, "checkpoint", "verify", f"--workdir={straight_run}")
    assert code == 0 and out.count("good") == 3
    record = straight_run / "checkpoints" / "30" / "record.json"
    whole = record.read_bytes()
    record.write_bytes(whole.replace(b"step", b"stop", 1))
    try:
        code, out, _ = ask(capsys, "checkpoint", "verify", f"--workdir={straight_run}", "--json")
        faults = {row["step"]: row["faults"] for row in json.loads(out)}
        assert code == 1 and faults == {20: [], 30: ["record.json was changed"], 40: []}
        code, _, err = ask(capsys, "evaluate", f"--workdir={straight_run}", "--step=30")
        assert code == 2 and "record.json was changed" in err
    finally:
        record.write_bytes(whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "--workdir=nowhere"], "config.json"),
        (["generate", "--workdir=nowhere"], "config.json"),
        (["checkpoint", "list", "--workdir=nowhere"], "config.json"),
        (["generat"], "did you mean generate"),
        (["train"], "--config"),
        (["checkpoint", "lst", "--workdir=x"], "lst"),
    ],
)
def test_mistakes_are_one_line(capsys, words, said):
    code, out, err = ask(capsys, *words)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_generate_by_beam_search_for_a_file_of_prompts(straight_run, tmp_path, capsys):
    def answers(*more: str) -> list[dict]:
        code, out, err = ask(capsys, "generate", f"--workdir={straight_run}", "--length=12", "--json", *more)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    prompts = ["def ", "import jax"]
    (tmp_path / "prompts.txt").write_text("\n\n".join(prompts))
    greedy = answers("--temperature=0", f"--prompts={tmp_path}/prompts.txt")
    assert [record["prompt"] for record in greedy] == prompts
    for record in greedy:
        (text,) = record["texts"]
        (cut,) = answers("--beam=1", f"--prompt={record['prompt']}", f"--end={text[5]}")
        assert cut["texts"] == [text[: text.index(text[5])]]
    best = answers("--beam=3", "--samples=3", f"--prompts={tmp_path}/prompts.txt")
    for record in best:
        assert len(set(record["texts"])) == 3 and record["scores"] == sorted(record["scores"], reverse=True)


def test_bad_values_of_generate(straight_run, capsys):
    for flags, said in (
        ("--temperature=-1", "temperature"),
        ("--length=0", "--length"),
        ("--step=7", "--step"),
        ("--beam=0", "--beam: expected at least 1, got 0"),
        ("--beam=2 --top_k=3", "--top_k: expected no --beam"),
        ("--beam=2 --samples=3", "--samples: expected at most the 2 texts of the beam, got 3"),
        ("--prompts=nowhere", "--prompts: expected a file with a prompt in each line, got 'nowhere'"),
        ("--length_penalty=1", "--length_penalty: expected --beam too"),
        ("--beam=2 --min_p=0.1", "--min_p: expected no --beam"),
        ("--min_p=2", "--min_p: expected at most 1, got 2.0"),
        ("--repetition_penalty=0", "--repetition_penalty: expected more than 0, got 0.0"),
        ("--end=ab", "--end: expected a special token's name or a text of one token, got 'ab'"),
    ):
        code, _, err = ask(capsys, "generate", f"--workdir={straight_run}", *flags.split())
        assert code == 2 and said in err, flags


def test_help_lists_every_command(capsys):
    code, out, _ = ask(capsys)
    commands = ("train", "evaluate", "generate", "verify", "report", "checkpoint", "diff")
    assert code == 0 and all(f"  {name} " in out for name in commands)
