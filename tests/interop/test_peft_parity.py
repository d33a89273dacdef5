"""Adapters of peft: outputs agree with its own, with its folders in our model and with ours in its loader."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from flax import traverse_util

from txjax.__main__ import main
from txjax.interop import huggingface
from txjax.interop.peft import peft as folders
from txjax.nn.adapters import IA3, Adapter, DoRA, LoRA, RsLoRA
from txjax.types import UserError, flat_paths

from helpers.arrays import variables as variables_of

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")
peft = pytest.importorskip("peft", reason="pip install '.[parity]'")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # the reference has warnings of its own

V, N = 37, 4
TOKENS = np.random.default_rng(0).integers(0, V, (2, 6))
SIZES = {"vocab_size": V, "hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 33}


def gpt2() -> Any:
    sizes = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=None, eos_token_id=None))


def llama() -> Any:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **heads))


def bert(kind: str = "Bert", head: str = "SequenceClassification", **own: Any) -> Any:
    more = {"num_attention_heads": 3, "max_position_embeddings": 16, "num_labels": 3} | own
    return getattr(transformers, f"{kind}For{head}")(getattr(transformers, f"{kind}Config")(**SIZES, **more))


def distilbert() -> Any:
    sizes = {"vocab_size": V, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 33, "num_labels": 3}
    return transformers.DistilBertForSequenceClassification(
        transformers.DistilBertConfig(**sizes, max_position_embeddings=16)
    )


def t5() -> Any:
    sizes = {"vocab_size": V, "d_model": 24, "d_kv": 8, "d_ff": 33, "num_layers": 2, "num_heads": 3}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0))


def swin() -> Any:
    sizes = {"image_size": 16, "patch_size": 2, "embed_dim": 6, "depths": [2, 2], "num_heads": [2, 3], "window_size": 4}
    return transformers.SwinForImageClassification(transformers.SwinConfig(**sizes, num_labels=3))


def vit() -> Any:
    sizes = {"image_size": 16, "patch_size": 4, "num_attention_heads": 3, "num_labels": 3}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, **sizes))


def llava() -> Any:
    layers = {"num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 23}
    vision = {"model_type": "clip_vision_model", "hidden_size": 16, "image_size": 14, "patch_size": 7} | layers
    text = SIZES | {"model_type": "llama", "num_attention_heads": 4}
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=V - 1)
    return transformers.LlavaForConditionalGeneration(config)


def lora(task: str | None, *modules: str, **more: Any) -> Any:
    return peft.LoraConfig(r=3, lora_alpha=5, target_modules=[*modules], task_type=task, **more)


def ia3(task: str, inputs: str, *outputs: str) -> Any:
    return peft.IA3Config(target_modules=[inputs, *outputs], feedforward_modules=[inputs], task_type=task)


SIZED: dict[str, Any] = {"rank_pattern": {"k_proj": 1, r"1\.mlp.down_proj": 5}, "alpha_pattern": {r"0.*q_proj": 11}}
LLAMAS = ("q_proj", "k_proj", "down_proj")
CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "gpt2-lora": lambda: (gpt2(), lora("CAUSAL_LM", "c_attn", fan_in_fan_out=True)),
    "gpt2-dora": lambda: (gpt2(), lora("CAUSAL_LM", "c_attn", fan_in_fan_out=True, use_dora=True)),
    "gpt2-table": lambda: (
        gpt2(),
        lora("CAUSAL_LM", "c_attn", fan_in_fan_out=True, modules_to_save=["lm_head", "ln_f"], ensure_weight_tying=True),
    ),
    "llama-lora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", "down_proj")),
    "llama-rslora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", use_rslora=True)),
    "llama-dora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", use_dora=True)),
    "llama-ranks": lambda: (llama(), lora("CAUSAL_LM", *LLAMAS, **SIZED)),
    "llama-ranks-rslora": lambda: (llama(), lora("CAUSAL_LM", *LLAMAS, **SIZED, use_rslora=True)),
    "llama-ranks-dora": lambda: (llama(), lora("CAUSAL_LM", *LLAMAS, **SIZED, use_dora=True)),
    "llama-layer-dora": lambda: (llama(), lora("CAUSAL_LM", *LLAMAS, layers_to_transform=[1], use_dora=True)),
    "llama-mica": lambda: (llama(), lora("CAUSAL_LM", *LLAMAS, init_lora_weights="mica")),
    "llama-head": lambda: (
        llama(),
        lora("CAUSAL_LM", "q_proj", modules_to_save=["lm_head", "post_attention_layernorm"]),
    ),
    "llava-lora": lambda: (llava(), lora("CAUSAL_LM", "q_proj", "v_proj", "linear_2")),
    "bert-lora": lambda: (bert(), lora("SEQ_CLS", "query", "value")),
    "bert-module": lambda: (bert(), lora("SEQ_CLS", "query", modules_to_save=["pooler.dense"])),
    "bert-bare": lambda: (
        bert().bert,
        lora("FEATURE_EXTRACTION", "query", "value", alpha_pattern={r"^encoder\.layer\.1.*query": 20}),
    ),
    "bert-tokens": lambda: (bert(head="TokenClassification"), lora("TOKEN_CLS", "query", "value")),
    "bert-answers": lambda: (bert(head="QuestionAnswering", num_labels=2), lora("QUESTION_ANS", "query", "value")),
    "distilbert-lora": lambda: (distilbert(), lora("SEQ_CLS", "q_lin", "v_lin")),
    "roberta-lora": lambda: (bert("Roberta"), lora("SEQ_CLS", "query", "value")),
    "roformer-dora": lambda: (bert("RoFormer"), lora("SEQ_CLS", "query", "key", use_dora=True)),
    "vit-lora": lambda: (vit(), lora(None, "q_proj", "fc1", modules_to_save=["classifier"])),
    "t5-lora": lambda: (t5(), lora("SEQ_2_SEQ_LM", "q", "v")),
    "t5-prompt": lambda: (
        t5(),
        peft.PromptTuningConfig(num_virtual_tokens=N, task_type="SEQ_2_SEQ_LM", num_transformer_submodules=1),
    ),
    "t5-ia3": lambda: (t5(), ia3("SEQ_2_SEQ_LM", "wo", "k", "v")),
    "gpt2-ia3": lambda: (gpt2(), ia3("CAUSAL_LM", "mlp.c_proj", "c_attn")),
    "gpt2-ia3-inputs": lambda: (gpt2(), ia3("CAUSAL_LM", "c_attn", "c_fc")),
    "roformer-ia3": lambda: (bert("RoFormer"), ia3("SEQ_CLS", "output.dense", "key", "value")),
    "gpt2-prompt": lambda: (gpt2(), peft.PromptTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "llama-prompt": lambda: (
        llama(),
        peft.PromptTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM", modules_to_save=["lm_head"]),
    ),
    "gpt2-prefix": lambda: (gpt2(), peft.PrefixTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "llama-prefix": lambda: (llama(), peft.PrefixTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "gpt2-mlp-prefix": lambda: (
        gpt2(),
        peft.PrefixTuningConfig(
            num_virtual_tokens=N, task_type="CAUSAL_LM", prefix_projection=True, encoder_hidden_size=5
        ),
    ),
}


def inputs(model: Any) -> dict[str, np.ndarray]:
    if model.main_input_name == "pixel_values":
        return {"pixel_values": np.random.default_rng(0).normal(size=(2, 3, 16, 16)).astype(np.float32)}
    paired = {"decoder_input_ids": TOKENS[:, :4]} if model.config.is_encoder_decoder else {}
    return {"input_ids": TOKENS, **paired}


def chosen(outputs: Mapping[str, Any]) -> np.ndarray:
    """Logits of the text, without virtual tokens, or the first output of a model without logits."""
    name = next(name for name in ("logits", "start_logits", "last_hidden_state") if name in outputs)
    found = np.asarray(outputs[name])
    return found[:, -TOKENS.shape[1] :] if found.ndim == 3 else found


def reference(model: Any) -> np.ndarray:
    with torch.no_grad():
        return chosen(model.eval()(**{name: torch.tensor(x) for name, x in inputs(model).items()}))


def example(model: Any) -> tuple[np.ndarray, ...]:
    """Arguments of our model's `init`."""
    found = tuple(inputs(model).values())
    return tuple(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x for x in found)


def ours(model: Any, params: dict[str, np.ndarray], arguments: dict[str, np.ndarray]) -> np.ndarray:
    tree = jax.tree.map(jax.numpy.asarray, traverse_util.unflatten_dict(params, sep="/"))
    call = jax.jit(lambda params: huggingface.forward(model, {"params": params}, arguments))
    return chosen(call(tree))


def trained(base: Any, config: Any, folder: Any) -> Any:
    """peft's model with random adapters, saved in a folder, and its base in another one."""
    base.save_pretrained(folder / "base")
    theirs = peft.get_peft_model(base, config)
    for _, parameter in theirs.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(folder / "adapter")
    return theirs


@pytest.mark.parametrize("name", CASES)
def test_adapters_of_peft_and_ours_are_each_others(name: str, tmp_path: Any) -> None:
    torch.manual_seed(0)
    base, config = CASES[name]()
    kind = type(base)
    theirs = trained(base, config, tmp_path)
    wanted = reference(theirs)

    model, variables = huggingface.load(tmp_path / "base")
    params = flat_paths(variables["params"])
    adapter, new = folders.load(tmp_path / "adapter", model, params)
    own, whole = model.clone(adapter=adapter), params | new
    found = ours(own, whole, inputs(base))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert np.abs(wanted - reference(kind.from_pretrained(tmp_path / "base"))).max() > 1e-2
    count = sum(x.numel() for x in theirs.parameters() if x.requires_grad)
    assert "mlp-prefix" in name or sum(x.size for x in new.values()) >= count  # a fused matrix's lora_A is one of each

    folders.save(own, whole, tmp_path / "again", [path for path in new if path in params])
    huggingface.save(model, variables, tmp_path / "model")  # a bare model's has a head
    wrapper = getattr(transformers, json.loads((tmp_path / "model" / "config.json").read_text())["architectures"][0])
    back = peft.PeftModel.from_pretrained(wrapper.from_pretrained(tmp_path / "model"), tmp_path / "again")
    np.testing.assert_allclose(reference(back), wanted, atol=1e-5)
    assert type(back) is type(theirs) or config.task_type == "FEATURE_EXTRACTION"


HEADLESS: dict[str, tuple[str, Callable[[], Any], Any]] = {
    "bert-texts": ("ForPreTraining", bert, lora("SEQ_CLS", "query", "value")),
    "bert-tokens": ("ForMaskedLM", lambda: bert(head="TokenClassification"), lora("TOKEN_CLS", "query", "value")),
    "bert-answers": (
        "ForPreTraining",
        lambda: bert(head="QuestionAnswering", num_labels=2),
        lora("QUESTION_ANS", "query", modules_to_save=["output.LayerNorm"]),
    ),
    "roberta-texts": ("ForMaskedLM", lambda: bert("Roberta"), lora("SEQ_CLS", "query", "value")),
    "distilbert-texts": ("ForMaskedLM", distilbert, lora("SEQ_CLS", "q_lin", "v_lin")),
    "electra-tokens": (
        "ForPreTraining",
        lambda: bert("Electra", "TokenClassification", embedding_size=24),
        lora("TOKEN_CLS", "query", "value"),
    ),
}


@pytest.mark.parametrize("name", HEADLESS)
def test_an_adapter_of_another_task_brings_its_head(name: str, tmp_path: Any, caplog: Any) -> None:
    """Its base is published with the head of pretraining, as a folder and as a run of it."""
    torch.manual_seed(0)
    ending, build, config = HEADLESS[name]
    base = build()
    prefix = type(base).__name__.partition("For")[0]
    pretrained = getattr(transformers, prefix + ending)(base.config)
    encoder = base.base_model.state_dict()
    pretrained.base_model.load_state_dict(encoder, strict=False)
    theirs = trained(base, config, tmp_path)
    pretrained.save_pretrained(tmp_path / "pretrained")
    wanted = reference(theirs)
    adapter, pretrained_folder = tmp_path / "adapter", tmp_path / "pretrained"
    assert main(["import", f"--from={pretrained_folder}", f"--workdir={tmp_path / 'run'}"]) == 0
    for at in (pretrained_folder, tmp_path / "run"):
        workdir = tmp_path / f"{at.name}-adapted"
        assert main(["import", f"--from={adapter}", f"--base={at}", f"--workdir={workdir}"]) == 0
        assert main(["export", f"--workdir={workdir}", f"--to={workdir / 'merged'}"]) == 0
        again = type(base).from_pretrained(workdir / "merged")
        np.testing.assert_allclose(reference(again), wanted, atol=1e-4)
        assert main(["export", f"--workdir={workdir}", f"--to={workdir / 'adapter'}", "--adapter"]) == 0
        back = peft.PeftModel.from_pretrained(type(base).from_pretrained(tmp_path / "base"), workdir / "adapter")
        np.testing.assert_allclose(reference(back), wanted, atol=1e-4)
    assert any("left out" in message for message in caplog.messages)


OURS: dict[str, Callable[[], tuple[Any, Adapter]]] = {
    "gpt2-lora": lambda: (gpt2(), LoRA(paths=".*(query|value|up)", rank=3, alpha=5.0)),
    "gpt2-rslora": lambda: (gpt2(), RsLoRA(paths=".*(query|value|up)", rank=3, alpha=5.0)),
    "gpt2-dora": lambda: (gpt2(), DoRA(paths=".*(key|up)", rank=3, alpha=5.0)),
    "gpt2-ia3": lambda: (gpt2(), IA3()),
    "llama-norms": lambda: (llama(), LoRA(paths=".*value", rank=3)),
    "bert-masked": lambda: (bert(head="MaskedLM"), LoRA(rank=3)),
    "swin-lora": lambda: (swin(), LoRA(rank=3)),
    "vit-lora": lambda: (vit(), LoRA(rank=3)),
}
TRAINED = {
    "llama-norms": "layers/block/norm_mlp/.*",
    "bert-masked": "head/.*",
    "swin-lora": "head/.*",
    "vit-lora": "layers/block/norm_mlp/.*",
}


@pytest.mark.parametrize("name", OURS)
def test_adapters_of_ours_are_read_by_peft(name: str, tmp_path: Any) -> None:
    """Parts of fused matrices, ranks that differ there, and parameters of modules in layers and stages."""
    torch.manual_seed(0)
    base, adapter = OURS[name]()
    base.save_pretrained(tmp_path / "base")
    model, variables = huggingface.load(tmp_path / "base")
    params = flat_paths(variables["params"])
    own = model.clone(adapter=adapter)
    changed = [path for path in params if re.fullmatch(TRAINED.get(name, "(?!)"), path)]
    drawn = flat_paths(variables_of(own, *example(base))["params"])
    whole = drawn | {path: x + 0.3 * drawn[path] if path in changed else x for path, x in params.items()}
    wanted = ours(own, whole, inputs(base))
    folders.save(own, whole, tmp_path / "adapter", changed)
    theirs = peft.PeftModel.from_pretrained(type(base).from_pretrained(tmp_path / "base"), tmp_path / "adapter")
    np.testing.assert_allclose(reference(theirs), wanted, atol=1e-4)
    assert np.abs(wanted - reference(base)).max() > 1e-2
    again, new = folders.load(tmp_path / "adapter", model, params)
    np.testing.assert_allclose(ours(model.clone(adapter=again), params | new, inputs(base)), wanted, atol=1e-5)


@pytest.mark.parametrize(("name", "kind"), [("llama-lora", "CausalLM"), ("bert-lora", "SequenceClassification")])
def test_automatic_classes_find_task_and_base(name: str, kind: str, tmp_path: Any) -> None:
    theirs = trained(*CASES[name](), tmp_path)
    model, variables = huggingface.load(tmp_path / "base")
    params = flat_paths(variables["params"])
    adapter, new = folders.load(tmp_path / "adapter", model, params)
    folders.save(model.clone(adapter=adapter), params | new, tmp_path / "again", base=str(tmp_path / "base"))
    found = getattr(peft, f"AutoPeftModelFor{kind}").from_pretrained(tmp_path / "again")
    np.testing.assert_allclose(reference(found), reference(theirs), atol=1e-5)


def test_pissa_is_refused_unless_it_is_converted(tmp_path: Any) -> None:
    """peft changes the base's weights again when it loads one."""
    torch.manual_seed(0)
    theirs = trained(llama(), lora("CAUSAL_LM", "q_proj", init_lora_weights="pissa"), tmp_path)
    # The first adapter is the one of the same base and initialisation.
    first = peft.get_peft_model(
        transformers.LlamaForCausalLM.from_pretrained(tmp_path / "base"),
        lora("CAUSAL_LM", "q_proj", init_lora_weights="pissa"),
    )
    first.peft_config["default"].init_lora_weights = True
    first.save_pretrained(tmp_path / "first")
    model, variables = huggingface.load(tmp_path / "base")
    params = flat_paths(variables["params"])
    with pytest.raises(UserError, match="init_lora_weights: expected True.*got 'pissa'.*weight_conversion"):
        folders.load(tmp_path / "adapter", model, params)
    theirs.save_pretrained(tmp_path / "as_lora", path_initial_model_for_weight_conversion=str(tmp_path / "first"))
    adapter, new = folders.load(tmp_path / "as_lora", model, params)
    found = ours(model.clone(adapter=adapter), params | new, {"input_ids": TOKENS})
    np.testing.assert_allclose(found, reference(theirs), atol=1e-4)
