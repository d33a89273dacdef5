"""The head of an adapter's task on a base with its head of pretraining; outputs are compared in test_peft_parity.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from txjax.interop.peft import peft, peft_heads
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.nn import Classes, Learned, MaskedTokens, NextSentence, Pooler, TokenClasses
from txjax.nn.adapters import LoRA
from txjax.types import UserError, flat_paths

from helpers.arrays import variables

TOKENS = np.zeros((1, 3), np.int32)
SIZES: dict[str, Any] = {"vocab": 11, "width": 8, "depth": 2, "heads": 2}
BERT: dict[str, Any] = SIZES | {"positions": Learned(max_length=7)}
CLASSIFIER = {
    "base_model.model.classifier.weight": np.arange(24, dtype=np.float32).reshape(3, 8),
    "base_model.model.classifier.bias": np.arange(3, dtype=np.float32),
}


def adapter_of(model: Any, task: str, folder: Path) -> dict[str, np.ndarray]:
    """Writes a LoRA for this task, with a classifier. Returns the base's parameters."""
    params = flat_paths(variables(model.clone(adapter=LoRA(rank=2)), TOKENS)["params"])
    peft.save(model.clone(adapter=LoRA(rank=2)), params, folder)
    path = folder / peft.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task_type": task}))
    path = folder / peft.WEIGHTS
    save_file(load_file(path) | CLASSIFIER, path)
    return {path: x for path, x in params.items() if "/lora/" not in path}


@pytest.mark.parametrize(
    ("task", "head", "pairs"),
    [
        ("TOKEN_CLS", TokenClasses(3), None),
        ("TOKEN_CLS", TokenClasses(3), NextSentence()),
        ("SEQ_CLS", Classes(3, Pooler()), NextSentence()),
    ],
)
def test_the_head_is_the_task_s(task, head, pairs, tmp_path, caplog) -> None:
    model = Bert(**BERT, head=MaskedTokens(next_sentence=pairs))
    params = adapter_of(model, task, tmp_path)
    base, based = peft_heads.for_task(tmp_path, model, params)
    assert base == model.clone(head=head)
    np.testing.assert_array_equal(based["head/kernel"], CLASSIFIER["base_model.model.classifier.weight"].T)
    np.testing.assert_array_equal(based["head/bias"], [0, 1, 2])
    encoder = [path for path in params if path.startswith(("embed", "positions/", "norm_embed/", "layers/"))]
    pooler = ["pooler/bias", "pooler/kernel"] if task == "SEQ_CLS" else []
    assert sorted(based) == sorted([*encoder, *pooler, "head/bias", "head/kernel"])
    for path in (*encoder, *pooler):
        np.testing.assert_array_equal(based[path], params[path])
    (line,) = caplog.messages
    assert "left out" in line and "cls.predictions" in line
    adapter, new = peft.load(tmp_path, base, based)
    assert isinstance(adapter, LoRA)
    np.testing.assert_array_equal(new["head/kernel"], based["head/kernel"])


def test_a_base_with_the_head_of_the_task_is_its_own(tmp_path) -> None:
    model = Bert(**BERT, head=TokenClasses(3))
    params = adapter_of(model, "TOKEN_CLS", tmp_path)
    base, based = peft_heads.for_task(tmp_path, model, params)
    assert base is model and based.keys() == params.keys()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            gpt(**SIZES, max_length=7),
            "task_type: expected a task whose class txjax has, got 'SEQ_CLS'; no class of gpt2 here has "
            "ForSequenceClassification in its name",
        ),
        (
            Bert(**BERT, head=MaskedTokens()),
            "bert.pooler.dense.weight: expected a tensor of that name, got 'none'; the adapter's task SEQ_CLS makes "
            "the base a BertForSequenceClassification",
        ),
    ],
)
def test_a_task_without_its_class_or_tensors_is_refused(model, words, tmp_path) -> None:
    params = adapter_of(model, "SEQ_CLS", tmp_path)
    with pytest.raises(UserError) as caught:
        peft_heads.for_task(tmp_path, model, params)
    assert str(caught.value).endswith(words)
