"""Adapters of peft: outputs agree with its own, with its folders in our model and with ours in its loader."""

from typing import Any

import jax
import numpy as np
import pytest
from flax import traverse_util

from txjax.interop import huggingface
from txjax.interop.huggingface import peft as folders
from txjax.types import flat_paths

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


def bert() -> Any:
    more = {"num_attention_heads": 3, "max_position_embeddings": 16, "num_labels": 3}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, **more))


def lora(task: str, *modules: str, **more: Any) -> Any:
    return peft.LoraConfig(r=3, lora_alpha=5, target_modules=[*modules], task_type=task, **more)


CASES = {
    "gpt2-lora": lambda: (gpt2(), lora("CAUSAL_LM", "c_attn", fan_in_fan_out=True)),
    "llama-lora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", "down_proj")),
    "llama-rslora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", use_rslora=True)),
    "llama-dora": lambda: (llama(), lora("CAUSAL_LM", "q_proj", "v_proj", use_dora=True)),
    "bert-lora-and-head": lambda: (bert(), lora("SEQ_CLS", "query", "value")),
    "gpt2-prompt": lambda: (gpt2(), peft.PromptTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "llama-prompt": lambda: (llama(), peft.PromptTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "gpt2-prefix": lambda: (gpt2(), peft.PrefixTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
    "llama-prefix": lambda: (llama(), peft.PrefixTuningConfig(num_virtual_tokens=N, task_type="CAUSAL_LM")),
}


def logits(model: Any) -> np.ndarray:
    """Of the text, without virtual tokens."""
    with torch.no_grad():
        found = model.eval()(input_ids=torch.tensor(TOKENS)).logits.numpy()
    return found if found.ndim == 2 else found[:, -TOKENS.shape[1] :]


@pytest.mark.parametrize("name", CASES)
def test_adapters_of_peft_and_ours_are_each_others(name: str, tmp_path: Any) -> None:
    torch.manual_seed(0)
    base, config = CASES[name]()
    base.save_pretrained(tmp_path / "base")
    theirs = peft.get_peft_model(base, config)
    for _, parameter in theirs.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "adapter")
    wanted = logits(theirs)

    model, variables = huggingface.load(tmp_path / "base")
    params = flat_paths(variables["params"])
    adapter, new = folders.load(tmp_path / "adapter", model, params)
    own, whole = model.clone(adapter=adapter), params | new
    tree = jax.tree.map(jax.numpy.asarray, traverse_util.unflatten_dict(whole, sep="/"))
    call = jax.jit(lambda params: huggingface.forward(own, {"params": params}, {"input_ids": TOKENS})["logits"])
    np.testing.assert_allclose(call(tree), wanted, atol=1e-4)
    assert np.abs(wanted - logits(type(base).from_pretrained(tmp_path / "base"))).max() > 1e-2
    trained = sum(x.numel() for x in theirs.parameters() if x.requires_grad)
    assert sum(x.size for path, x in new.items()) >= trained  # a fused matrix's lora_A is one of each of ours

    folders.save(own, whole, tmp_path / "again", [path for path in new if path in params])
    back = peft.PeftModel.from_pretrained(type(base).from_pretrained(tmp_path / "base"), tmp_path / "again")
    np.testing.assert_allclose(logits(back), wanted, atol=1e-5)
