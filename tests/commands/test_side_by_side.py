"""Adapters of one base in one `txjax generate` or `txjax evaluate`."""

import json

import pytest

from txjax.__main__ import main

from helpers import runs

pytestmark = pytest.mark.slow

TUNED = (
    runs.CONFIG.replace("heads=2)", "heads=2, adapter=LoRA(rank=2))")
    .replace("Constant(warmup_steps=2)", "Constant(), peak_lr=1.0, groups=train_only('.*/lora/.*')")
    .replace("num_steps=40", "num_steps=8")
    .replace("import AdamW", "import train_only, AdamW")
)


def ask(capsys, *words: object) -> tuple[int, str, str]:
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def tuned(straight_run, tmp_path_factory):
    """Two runs with adapters on the last step of a run, and one on its best step."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "config.py").write_text("from txjax.nn.adapters import LoRA\n" + TUNED)
    found = []
    for name, step, seed in (("a", "40", 1), ("b", "40", 2), ("other", "30", 3)):
        flags = (
            f"--config.init_from={straight_run}@{step}",
            f"--config.seed={seed}",
            "--config.checkpoint.frozen=origin",
        )
        code, _, err = runs.train_here(folder / "config.py", folder / name, *flags)
        assert code == 0, err
        found.append(folder / name)
    return found


def test_texts_of_several_adapters_are_those_of_each_run(tuned, capsys) -> None:
    a, b, _ = tuned
    words = ("--prompt=def ", "--length=200", "--json")
    code, out, err = ask(capsys, "generate", f"--workdir={a}", *words, "--adapters", b)
    assert code == 0, err
    together = [json.loads(line) for line in out.splitlines()]
    assert [record.pop("run") for record in together] == [str(a), str(b)]
    alone = [json.loads(ask(capsys, "generate", f"--workdir={run}", *words)[1]) for run in (a, b)]
    assert together == alone and alone[0]["texts"] != alone[1]["texts"]


def test_only_adapters_of_one_base_stand_together(tuned, straight_run, capsys) -> None:
    a, _, other = tuned
    code, _, err = ask(capsys, "generate", f"--workdir={a}", "--adapters", other)
    assert code == 2 and "--adapters: expected runs on the same frozen parameters" in err and "differs" in err
    code, _, err = ask(capsys, "generate", f"--workdir={a}", "--adapters", straight_run)
    assert code == 2 and f"--adapters: expected runs of the model of {a}" in err and "adapter differs" in err


def test_scores_of_several_adapters_are_those_of_each_run(tuned, capsys) -> None:
    a, b, _ = tuned
    code, out, err = ask(capsys, "evaluate", f"--workdir={a}", "--json", "--adapters", b)
    assert code == 0, err
    together = [json.loads(line) for line in out.splitlines()]
    assert [record.pop("run") for record in together] == [str(a), str(b)]
    alone = [json.loads(ask(capsys, "evaluate", f"--workdir={run}", "--json")[1]) for run in (a, b)]
    assert together == alone and alone[0]["eval/valid/loss"] != alone[1]["eval/valid/loss"]
    assert "eval/valid/loss_ci" in alone[1] and str(b) in alone[1]["files"][0]
    code, out, err = ask(capsys, "evaluate", f"--workdir={a}", "--adapters", b)
    assert code == 0 and f"{alone[1]['eval/valid/loss']:.4f}" in out, err
