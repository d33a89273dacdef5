"""Folders of adapters without the library: both ways through the commands, and what can't be represented."""

import json
from typing import Any

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.checkpoint.stored_weights import stored_weights
from txjax.interop.huggingface import peft
from txjax.models import Decoder, gpt
from txjax.models.text.decoder import llama
from txjax.nn.adapters import IA3, Adapter, DoRA, LoRA, MLPPrefix, Prefix, Prompt, RsLoRA
from txjax.types import UserError, flat_paths

import runs
from made import variables

TOKENS = np.zeros((1, 3), np.int32)
SIZES: dict[str, Any] = {"vocab": 11, "width": 8, "depth": 2, "heads": 2}
OF_ALL = ".*attention/(query|key|value)"
CASES: list[tuple[Decoder, Adapter]] = [
    (llama(**SIZES, kv_heads=1), LoRA(paths=".*(query|value|down)", rank=3, alpha=5.0, dropout=0.1)),
    (llama(**SIZES), RsLoRA(rank=3)),
    (llama(**SIZES), DoRA(rank=3)),
    (llama(**SIZES, kv_heads=1), Prefix(length=3, first_position=3)),
    (gpt(**SIZES, max_length=9), Prompt(length=3, first_position=3)),
]


def filled(model: Decoder, adapter: Adapter) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The parameters of the base and of the adapter."""
    params = flat_paths(variables(model.clone(adapter=adapter), TOKENS)["params"])
    new = {path: x for path, x in params.items() if f"/{adapter.name}/" in f"/{path}"}
    return {path: x for path, x in params.items() if path not in new}, new


@pytest.mark.parametrize(("model", "adapter"), CASES, ids=[type(adapter).__name__ for _, adapter in CASES])
def test_a_folder_that_is_written_is_read_again(model: Decoder, adapter: Adapter, tmp_path: Any) -> None:
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path)
    again, found = peft.load(tmp_path, model, base)
    offered = {path.rpartition(f"/{adapter.name}/")[0] for path in new}
    assert type(again) is type(adapter) and (adapter.of == "stack" or all(map(again.matches, offered)))
    assert found.keys() == new.keys()
    for path, x in new.items():
        np.testing.assert_allclose(found[path], x, atol=1e-6, err_msg=path)


def test_parts_of_a_fused_matrix_are_blocks(tmp_path: Any) -> None:
    """GPT-2's c_attn has one lora_A: that of queries above that of values, and zeros for the keys."""
    model, adapter = gpt(**SIZES, max_length=9), LoRA(rank=3, alpha=6.0)
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path)
    config = json.loads((tmp_path / peft.CONFIG).read_text())
    assert (config["r"], config["lora_alpha"]) == (6, 12.0)
    again, found = peft.load(tmp_path, model, base)
    assert again.matches("layers/block/attention/key")

    def update(flat: dict[str, np.ndarray], own: LoRA, name: str) -> np.ndarray:
        down, up = (flat[f"layers/block/attention/{name}/lora/{half}/kernel"] for half in ("down", "up"))
        return own.factor * np.einsum("lir,lrhk->lihk", down, up)

    for name in ("query", "value"):
        np.testing.assert_allclose(update(found, again, name), update(new, adapter, name), atol=1e-5)
    assert not update(found, again, "key").any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peft_type": "LOHA"}, "peft_type: expected one of LORA, PROMPT_TUNING, PREFIX_TUNING, got 'LOHA'"),
        ({"bias": "all"}, "bias: expected None or 'none', got 'all'"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern: expected None or {}"),
        ({"r": 4}, "expected lora_A.weight of .4 8., for this model"),
    ],
)
def test_what_is_no_adapter_of_ours_is_refused(change: dict[str, Any], words: str, tmp_path: Any) -> None:
    model, adapter = llama(**SIZES), LoRA(rank=3)
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path)
    path = tmp_path / peft.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=words):
        peft.load(tmp_path, model, base)


def test_another_base_and_other_adapters_are_refused(tmp_path: Any) -> None:
    model, adapter = llama(**SIZES), LoRA(rank=3)
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path / "x")
    wider = llama(**SIZES | {"width": 12})
    with pytest.raises(UserError, match="expected lora_A.weight of .3 12., for this model"):
        peft.load(tmp_path / "x", wider, filled(wider, adapter)[0])
    with pytest.raises(UserError, match="a folder with adapter_config.json"):
        peft.load(tmp_path, model, base)
    for other, words in ((IA3(), "got 'IA3'"), (MLPPrefix(), "merge"), (Prompt(length=2), "begins after")):
        mine, more = filled(model, other)
        with pytest.raises(UserError, match=words):
            peft.save(model.clone(adapter=other), mine | more, tmp_path / "y")


def changed(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.slow
def test_by_the_commands(straight_run, tmp_path, capsys) -> None:
    """A tuned adapter is exported alone, and imported on its base: the scores of the tuned run."""
    changes = {"import Decoder": "import llama", "model=Decoder(": "model=llama(", "num_steps=40": "num_steps=2"}
    tuned = changed(runs.CONFIG, changes)
    (tmp_path / "base.py").write_text(tuned)
    assert runs.train_here(tmp_path / "base.py", tmp_path / "base")[0] == 0
    changes = {"heads=2)": "heads=2, adapter=LoRA(rank=2))", "import AdamW": "import train_only, AdamW"}
    changes["Constant(warmup_steps=2)"] = "Constant(), peak_lr=1.0, groups=train_only('.*/lora/.*')"
    tuned = changed(tuned, changes)
    (tmp_path / "tuned.py").write_text("from txjax.nn.adapters import LoRA\n" + tuned)
    code, _, err = runs.train_here(tmp_path / "tuned.py", tmp_path / "tuned", f"--config.init_from={tmp_path / 'base'}")
    assert code == 0, err
    for words in (
        ("export", f"--workdir={tmp_path / 'tuned'}", f"--to={tmp_path / 'folder'}", "--adapter"),
        ("import", f"--from={tmp_path / 'folder'}", f"--base={tmp_path / 'base'}", f"--workdir={tmp_path / 'again'}"),
    ):
        assert main(list(words)) == 0, capsys.readouterr().err
    capsys.readouterr()
    scores = []
    for name in ("tuned", "again"):
        assert main(["evaluate", f"--workdir={tmp_path / name}", "--json"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["eval/valid/loss"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)
    parts = stored_weights(Store(tmp_path / "again"), 0)
    assert all("/lora/" in path for path in flat_paths(parts["params"])) and parts["frozen"]
    config = json.loads((tmp_path / "folder" / peft.CONFIG).read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "base")
    assert main(["export", f"--workdir={straight_run}", f"--to={tmp_path / 'z'}", "--adapter"]) == 2
    assert "--adapter: expected a run with an adapter" in capsys.readouterr().err
