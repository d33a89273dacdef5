"""Folders of adapters without the library: both ways through the commands, and what can't be represented."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.checkpoint.stored_weights import stored_weights
from txjax.interop.huggingface import weights
from txjax.interop.peft import peft
from txjax.models.text.decoder import Decoder, gpt
from txjax.models.text.decoder.decoder import llama
from txjax.nn.adapters import IA3, Adapter, Bottleneck, DoRA, LoRA, MLPPrefix, Prefix, Prompt, RsLoRA
from txjax.types import UserError, flat_paths

from helpers import runs
from helpers.arrays import variables

TOKENS = np.zeros((1, 3), np.int32)
SIZES: dict[str, Any] = {"vocab": 11, "width": 8, "depth": 2, "heads": 2}
OF_ALL = ".*attention/(query|key|value)"
CASES: list[tuple[Decoder, Adapter]] = [
    (llama(**SIZES, kv_heads=1), LoRA(paths=".*(query|value|down)", rank=3, alpha=5.0, dropout=0.1)),
    (llama(**SIZES), RsLoRA(rank=3)),
    (llama(**SIZES), DoRA(rank=3)),
    (llama(**SIZES, kv_heads=1), Prefix(length=3, first_position=3)),
    (gpt(**SIZES, max_length=9), Prompt(length=3, first_position=3)),
    (llama(**SIZES), IA3()),
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


def test_a_fused_matrix_has_the_numbers_of_two_and_adapts_three(tmp_path: Any) -> None:
    """GPT-2 with `target_modules=["c_attn"]`: one lora_A, so 4 r d numbers as queries and values apart have."""
    model, adapter = gpt(**SIZES, max_length=9), LoRA(rank=3, paths=OF_ALL)
    base, new = filled(model, adapter)
    downs = {path: new["layers/block/attention/query/lora/down/kernel"] for path in new if "/down/" in path}
    peft.save(model.clone(adapter=adapter), base | new | downs, tmp_path)
    count = sum(x.read().size for x in weights.read(tmp_path, peft.WEIGHTS).values())
    assert count == sum(x.size for x in filled(model, LoRA(rank=3))[1].values())
    again, found = peft.load(tmp_path, model, base)
    assert isinstance(again, LoRA) and again.rank == 3 and found["layers/block/attention/key/lora/up/kernel"].any()
    for path, x in (new | downs).items():
        np.testing.assert_allclose(found[path], x, atol=1e-6, err_msg=path)


def written(model: Any, adapter: Adapter, to: Path, change: dict[str, Any]) -> dict[str, np.ndarray]:
    """Writes the model's adapter with changed options. Returns the parameters of the base."""
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, to)
    path = to / peft.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    return base


KINDS = "LORA, IA3, PROMPT_TUNING, PREFIX_TUNING"
OFF = "expected no such option of LORA, or one that is off"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peft_type": "LOHA"}, f"{peft.CONFIG}: peft_type: expected one of {KINDS}, got 'LOHA'"),
        ({"bias": "all"}, f"{peft.CONFIG}: bias: expected 'none' or None, got 'all'"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "init_lora_weights: expected True.*got 'pissa_niter_4'; others change",
        ),
        ({"init_lora_weights": "loftq"}, "init_lora_weights: expected True"),
        ({"use_dora": True, "use_rslora": True}, "use_rslora: expected False, got True"),
        ({"r": 0}, "r: expected at least 1, got 0"),
        ({"r": 4}, "expected base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight of .4, 8., for this model"),
        ({"rank_pattern": {"q_proj": 4}}, "q_proj.lora_A.weight of .4, 8., for this model, got .3, 8."),
        ({"use_qalora": True}, f"use_qalora: {OFF}, got True"),
        ({"alora_invocation_tokens": [3]}, f"alora_invocation_tokens: {OFF}"),
        ({"trainable_token_indices": [3]}, f"trainable_token_indices: {OFF}"),
        ({"target_parameters": ["x"]}, f"target_parameters: {OFF}"),
        ({"lora_bias": True}, f"lora_bias: {OFF}"),
        ({"layer_replication": [[0, 2]]}, f"layer_replication: {OFF}"),
        ({"megatron_config": {"x": 1}}, f"megatron_config: {OFF}"),
        ({"use_dorra": 1}, f"use_dorra: {OFF}, got 1; did you mean use_dora"),
    ],
)
def test_what_is_no_adapter_of_ours_is_refused(change: dict[str, Any], words: str, tmp_path: Any) -> None:
    model = llama(**SIZES)
    base = written(model, LoRA(rank=3), tmp_path, change)
    with pytest.raises(UserError, match=words):
        peft.load(tmp_path, model, base)


@pytest.mark.parametrize("task", ["SEQ_2_SEQ_LM", "SEQ_CLS", None])
def test_prompts_that_others_read_are_refused(task: str | None, tmp_path: Any) -> None:
    model = gpt(**SIZES, max_length=9)
    change = {"task_type": task, "num_transformer_submodules": 2}
    base = written(model, Prompt(length=3, first_position=3), tmp_path, change)
    with pytest.raises(UserError, match=f"causal language model .*, got '{task} for Decoder'; elsewhere heads, cross"):
        peft.load(tmp_path, model, base)


def test_options_that_change_nothing_are_read(tmp_path: Any) -> None:
    """Initialisations that leave the base, what the tensors say as well, and unknown options that are off."""
    model = llama(**SIZES)
    change = {"init_lora_weights": "eva", "eva_config": {"rho": 2}, "loftq_config": {"bits": 4}, "qalora_group_size": 8}
    change |= {"exclude_modules": ["k_proj"], "layers_pattern": "layers", "use_new": False, "new_config": None}
    base = written(model, LoRA(rank=3), tmp_path, change)
    assert isinstance(peft.load(tmp_path, model, base)[0], LoRA)


def test_ranks_and_layers_of_their_own_are_zeros(tmp_path: Any) -> None:
    """alpha / r of each module, with the largest rank; a layer without an adapter has none of its function."""
    model, adapter = llama(**SIZES), LoRA(rank=2, alpha=6.0, paths=".*(query|value)")
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path)
    tensors = {name: x.read() for name, x in weights.read(tmp_path, peft.WEIGHTS).items()}
    first, second = (f"base_model.model.model.layers.{layer}.self_attn" for layer in (0, 1))
    wide = np.ones((3, 8), np.float32)
    tensors |= {f"{first}.q_proj.lora_A.weight": wide, f"{first}.q_proj.lora_B.weight": wide.T}
    tensors = {name: x for name, x in tensors.items() if not name.startswith(f"{second}.v_proj")}
    save_file(tensors, tmp_path / peft.WEIGHTS)
    path = tmp_path / peft.CONFIG
    change = {"rank_pattern": {"0.self_attn.q_proj": 3}, "alpha_pattern": {r"0\..*q_proj": 12}}
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    again, found = peft.load(tmp_path, model, base)
    assert isinstance(again, LoRA) and again.rank == 3 and again.factor == adapter.factor

    def update(flat: dict[str, np.ndarray], name: str) -> np.ndarray:
        down, up = (flat[f"layers/block/attention/{name}/lora/{half}/kernel"] for half in ("down", "up"))
        return np.einsum("lir,lrhk->lihk", down, up)

    np.testing.assert_allclose(update(found, "query")[0], 12 / 3 * 3 / adapter.factor, rtol=1e-6)
    np.testing.assert_allclose(update(found, "query")[1], update(new, "query")[1], rtol=1e-5)
    np.testing.assert_allclose(update(found, "value")[0], update(new, "value")[0], rtol=1e-5)
    assert not found["layers/block/attention/value/lora/down/kernel"][1].any() and not update(found, "value")[1].any()


def test_modules_that_were_trained_have_whole_names(tmp_path: Any) -> None:
    """A head is whole, a norm is of one layer's module; what a trained adapter or table would share is refused."""
    model, adapter = llama(**SIZES), LoRA(rank=3)
    base, new = filled(model, adapter)
    norm = "layers/block/norm_mlp/scale"
    peft.save(model.clone(adapter=adapter), base | new, tmp_path / "x", [norm])
    config = json.loads((tmp_path / "x" / peft.CONFIG).read_text())
    assert config["modules_to_save"] == [f"model.layers.{layer}.post_attention_layernorm" for layer in (0, 1)]
    assert config["task_type"] == "CAUSAL_LM"
    np.testing.assert_array_equal(peft.load(tmp_path / "x", model, base)[1][norm], base[norm])
    for path, words in (
        ("layers/block/attention/query/kernel", "none of the modules that peft trains whole, got .*q_proj.lora_A"),
        ("x", "an adapter and modules of Hugging Face's model, got 'x'"),
    ):
        with pytest.raises(UserError, match=words):
            peft.save(model.clone(adapter=adapter), base | new, tmp_path / "y", [path])


def test_a_table_without_its_copy_is_refused(tmp_path: Any) -> None:
    """peft trains a table apart from the tied head, unless `ensure_weight_tying` is set."""
    model, adapter = gpt(**SIZES, max_length=9), LoRA(rank=3)
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path, ["embed/embedding"])
    assert json.loads((tmp_path / peft.CONFIG).read_text())["ensure_weight_tying"]
    np.testing.assert_array_equal(peft.load(tmp_path, model, base)[1]["embed/embedding"], base["embed/embedding"])
    tensors = {name: x.read() for name, x in weights.read(tmp_path, peft.WEIGHTS).items()}
    for change in ({}, {"base_model.model.lm_head.weight": np.zeros((11, 8), np.float32)}):
        left = {name: x for name, x in tensors.items() if "lm_head" not in name}
        save_file(left | change, tmp_path / peft.WEIGHTS)
        with pytest.raises(UserError, match="lm_head.weight like transformer.wte.weight.*; ensure_weight_tying"):
            peft.load(tmp_path, model, base)


def test_a_module_that_txjax_cannot_adapt_is_refused(tmp_path: Any) -> None:
    model = llama(**SIZES)
    base = written(model, LoRA(rank=3), tmp_path, {})
    tensors = {name: x.read() for name, x in weights.read(tmp_path, peft.WEIGHTS).items()}
    halves = {
        "lm_head.lora_A.weight": np.ones((3, 8), np.float32),
        "lm_head.lora_B.weight": np.ones((11, 3), np.float32),
    }
    save_file(tensors | {f"base_model.model.{name}": x for name, x in halves.items()}, tmp_path / peft.WEIGHTS)
    with pytest.raises(UserError, match="an adapter of modules that txjax can adapt, got 'head/linear/lora/down"):
        peft.load(tmp_path, model, base)


def test_another_base_and_other_adapters_are_refused(tmp_path: Any) -> None:
    model, adapter = llama(**SIZES), LoRA(rank=3)
    base, new = filled(model, adapter)
    peft.save(model.clone(adapter=adapter), base | new, tmp_path / "x")
    wider = llama(**SIZES | {"width": 12})
    with pytest.raises(UserError, match="lora_A.weight of .3, 12., for this model"):
        peft.load(tmp_path / "x", wider, filled(wider, adapter)[0])
    with pytest.raises(UserError, match="a folder with adapter_config.json"):
        peft.load(tmp_path, model, base)
    for other, words in (
        (Bottleneck(), "got 'Bottleneck'"),
        (MLPPrefix(), "merge"),
        (Prompt(length=2), "begins after"),
    ):
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
    """A tuned adapter is exported alone, and imported on its base: the scores of the tuned run; on int8, nearly."""
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
        ("quantize", f"--workdir={tmp_path / 'base'}", f"--to={tmp_path / 'q'}", "--storage=QuantizedKernels('int8')"),
        ("import", f"--from={tmp_path / 'folder'}", f"--base={tmp_path / 'q'}", f"--workdir={tmp_path / 'on_int8'}"),
        ("export", f"--workdir={tmp_path / 'on_int8'}", f"--to={tmp_path / 'same'}", "--adapter"),
    ):
        assert main(list(words)) == 0, capsys.readouterr().err
    capsys.readouterr()
    scores = []
    for name in ("tuned", "again", "on_int8"):
        assert main(["evaluate", f"--workdir={tmp_path / name}", "--json"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["eval/valid/loss"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)
    assert scores[0] == pytest.approx(scores[2], rel=1e-3) and scores[0] != scores[2]
    first, same = ((tmp_path / name / peft.WEIGHTS).read_bytes() for name in ("folder", "same"))
    assert first == same
    parts = stored_weights(Store(tmp_path / "again"), 0)
    assert all("/lora/" in path for path in flat_paths(parts["params"])) and parts["frozen"]
    config = json.loads((tmp_path / "folder" / peft.CONFIG).read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "base")
    assert main(["export", f"--workdir={straight_run}", f"--to={tmp_path / 'z'}", "--adapter"]) == 2
    assert "--adapter: expected a run with an adapter" in capsys.readouterr().err
